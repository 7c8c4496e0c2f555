//! The file of a Unix socket, from the bind to its removal.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::error::{Error, Result};

/// The file of a socket that somebody listens on. Dropping it removes the file, unless another
/// one has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    pub(super) async fn bind(path: &Path, backlog: u32) -> Result<(UnixListener, Self)> {
        let cannot = |error| Error::io(format!("cannot listen on unix:{}", path.display()), error);
        let socket = UnixSocket::new_stream().map_err(cannot)?;
        match socket.bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                clear(path).await.map_err(cannot)?;
                socket.bind(path).map_err(cannot)?;
            }
            outcome => outcome.map_err(cannot)?,
        }
        let file = Self { path: path.to_owned(), identity: identity(path).map_err(cannot)? };
        // Before anybody can connect: nobody listens yet.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(cannot)?;
        Ok((socket.listen(backlog).map_err(cannot)?, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that a server left behind. One that lives, or another kind of file, stays.
async fn clear(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        let why = "there is a file that is not a socket";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        // Its queue may be full, or it may not let us in: either way somebody listens.
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server is listening there")),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}
