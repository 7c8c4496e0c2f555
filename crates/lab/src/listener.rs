//! The process that listens at an address of this machine.

use std::path::Path;

/// Where somebody listens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Socket<'a> {
    Port(u16),
    Path(&'a Path),
}

/// The process that listens there: of several that share a socket, the one that is oldest. `None`
/// if it is not to be seen, or is this very process, which has other things to do as well.
pub(crate) fn process(socket: Socket<'_>) -> Option<u32> {
    let inodes = source::inodes(socket);
    if inodes.is_empty() {
        return None;
    }
    source::holders(&inodes).min().filter(|pid| *pid != std::process::id())
}

#[cfg(not(target_os = "linux"))]
mod source {
    use super::Socket;

    pub(super) fn inodes(_: Socket<'_>) -> Vec<u64> {
        Vec::new()
    }

    pub(super) fn holders(_: &[u64]) -> impl Iterator<Item = u32> {
        std::iter::empty()
    }
}

#[cfg(target_os = "linux")]
mod source {
    use std::fs;

    use super::Socket;

    /// The state of a TCP socket that listens, in `/proc/net/tcp`.
    const LISTENS: &str = "0A";

    pub(super) fn inodes(socket: Socket<'_>) -> Vec<u64> {
        let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        match socket {
            Socket::Port(port) => {
                let text = read("tcp") + &read("tcp6");
                text.lines().filter_map(|line| tcp(line, port)).collect()
            }
            Socket::Path(path) => {
                let text = read("unix");
                let path = path.to_string_lossy();
                text.lines().filter_map(|line| unix(line, &path)).collect()
            }
        }
    }

    /// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …`
    pub(super) fn tcp(line: &str, port: u16) -> Option<u64> {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port) && fields.get(3) == Some(&LISTENS);
        is_it.then(|| fields.get(9)?.parse().ok())?
    }

    /// `Num RefCount Protocol Flags Type St Inode Path`
    pub(super) fn unix(line: &str, path: &str) -> Option<u64> {
        let fields: Vec<_> = line.splitn(8, ' ').collect();
        let (inode, theirs) = fields
            .get(6..)?
            .join(" ")
            .trim_start()
            .split_once(' ')
            .map(|(inode, path)| (inode.to_owned(), path.to_owned()))?;
        (theirs == path).then(|| inode.parse().ok())?
    }

    pub(super) fn holders(inodes: &[u64]) -> impl Iterator<Item = u32> {
        let links: Vec<_> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(move |process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            // Those of other users cannot be read, and are not found.
            let mut fds = fs::read_dir(process.path().join("fd")).ok()?.flatten();
            let holds = fds.any(|fd| {
                fs::read_link(fd.path())
                    .is_ok_and(|to| links.iter().any(|l| to.as_os_str() == l.as_str()))
            });
            holds.then_some(pid)
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  \
            1000        0 4711 1 0000000000000000 100 0 0 10 0";
        assert_eq!(source::tcp(line, 8080), Some(4711));
        assert_eq!(source::tcp(line, 8081), None);
        assert_eq!(source::tcp(&line.replace(" 0A ", " 01 "), 8080), None);
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01  4712 /tmp/a b";
        assert_eq!(source::unix(line, "/tmp/a b"), Some(4712));
        assert_eq!(source::unix(line, "/tmp/a"), None);
    }

    #[test]
    fn the_holder_of_a_socket_is_found_unless_it_is_this_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let inodes = source::inodes(Socket::Port(port));
        assert_eq!(inodes.len(), 1);
        assert!(source::holders(&inodes).any(|pid| pid == std::process::id()));
        assert_eq!(process(Socket::Port(port)), None);
        assert_eq!(process(Socket::Path(Path::new("/no/such/socket"))), None);
    }
}
