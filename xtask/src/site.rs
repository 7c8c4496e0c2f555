//! The documents as a site: mdBook over a copy of `docs/`, and no link of the result that leads
//! nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::interop::Peer;
use crate::run::{in_ci, run, step};
use crate::tidy;
use crate::tidy::documents::{links, prose, resolve};

/// Where files lie that the site does not have.
const REPOSITORY: &str = "https://github.com/mcplane/mcplane/blob/main";

/// What a repository calls the first page of a folder, and what a site does.
const README: &str = "README.md";
const INDEX: &str = "index.md";

/// Builds the site in `target/site/book`. Where mdBook cannot be installed, says why; in CI that is
/// an error.
pub fn site(root: &Path) -> anyhow::Result<Option<String>> {
    let peer = Peer::new(root, "xtask/site", "site");
    match peer.venv() {
        Err(error) if !in_ci() => return Ok(Some(format!("site: {error:#}"))),
        outcome => outcome?,
    }
    step("site", || {
        let folder = root.join("target/site");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        stage(root, &folder)?;
        // Its progress is of no interest, its warnings are.
        let mut mdbook = Command::new(peer.installed.join("bin/mdbook"));
        run(mdbook.arg("build").arg(&folder).env("MDBOOK_LOG", "warn"))?;
        let broken = broken(&folder.join("book"))?;
        if !broken.is_empty() {
            bail!("links of the site that lead nowhere:\n{}", broken.join("\n"));
        }
        Ok(None)
    })
}

/// Copies `docs/`, where a link that leaves the folder goes to the repository instead.
fn stage(root: &Path, folder: &Path) -> anyhow::Result<()> {
    for path in tidy::paths(root)? {
        let Some(page) = path.strip_prefix("docs/") else { continue };
        let to = folder.join(page.replace(README, INDEX));
        fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        if path.ends_with(".md") {
            fs::write(&to, staged(&path, &fs::read_to_string(root.join(&path))?))?;
        } else {
            fs::copy(root.join(&path), &to).with_context(|| format!("cannot copy {path}"))?;
        }
    }
    Ok(())
}

fn staged(path: &str, text: &str) -> String {
    let lines: BTreeSet<usize> = prose(text).map(|(number, _)| number).collect();
    let line = |(number, line): (usize, &str)| {
        let mut new = line.to_owned();
        for link in links(line).filter(|_| lines.contains(&number)) {
            let (file, _) = link.split_once('#').unwrap_or((link, ""));
            let target = resolve(path, file).unwrap_or_default();
            let to = match target.strip_prefix("docs/") {
                _ if file.is_empty() => continue,
                Some(_) => link.replace(README, INDEX),
                None => format!("{REPOSITORY}/{target}"),
            };
            new = new.replace(&format!("]({link})"), &format!("]({to})"));
        }
        new + "\n"
    };
    (1..).zip(text.lines()).map(line).collect()
}

/// Every link in the pages below `book` to a page or an anchor that is not there.
fn broken(book: &Path) -> anyhow::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                let text = fs::read_to_string(&path)?;
                pages.insert(path.strip_prefix(book)?.to_owned(), text);
            }
        }
    }
    // The page for addresses that do not exist is shown at any depth.
    pages.remove(Path::new("404.html"));
    if pages.len() < 2 {
        bail!("mdBook wrote {} pages", pages.len());
    }
    let mut broken = Vec::new();
    for (page, text) in &pages {
        let from = page.to_string_lossy();
        for link in attributes(text, "href").into_iter().filter(|link| !link.contains(':')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { Some(from.to_string()) } else { resolve(&from, file) };
            let target = target.map(PathBuf::from).filter(|target| book.join(target).exists());
            let has = |target: PathBuf| {
                let of = |text: &String| attributes(text, "id").contains(&anchor);
                anchor.is_empty() || pages.get(&target).is_some_and(of)
            };
            if !target.is_some_and(has) {
                broken.push(format!("{from}: {link}"));
            }
        }
    }
    Ok(broken)
}

/// The values of an attribute, as mdBook writes them.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_site_go_to_the_repository() {
        let text = "[a](../../SECURITY.md) [b](../README.md#x) [c](#y)\n```\n[d](../../x)\n```\n";
        let expected = text.replace("../../SECURITY.md", &format!("{REPOSITORY}/SECURITY.md"));
        let expected = expected.replace(README, INDEX);
        assert_eq!(staged("docs/gateway/guide.md", text), expected);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let book = std::env::temp_dir().join(format!("mcplane-site-{}", std::process::id()));
        fs::create_dir_all(book.join("a")).unwrap();
        fs::write(book.join("index.html"), "<h1 id=\"top\"><a href=\"a/b.html\">").unwrap();
        let links = [
            "../index.html#top",
            "#here",
            "https://a.b",
            "../index.html#no",
            "c.html",
            "#no",
            "../..",
        ];
        let links = links.map(|link| format!("<a class=\"x\" href=\"{link}\">")).concat();
        fs::write(book.join("a/b.html"), format!("<p id=\"here\">{links}")).unwrap();
        let found = broken(&book).unwrap();
        fs::remove_dir_all(&book).unwrap();
        assert_eq!(
            found,
            ["a/b.html: ../index.html#no", "a/b.html: c.html", "a/b.html: #no", "a/b.html: ../.."]
        );
    }
}
