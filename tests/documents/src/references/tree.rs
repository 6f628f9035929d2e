//! The files of the repository, and whether a name is one of them.

use std::collections::{BTreeSet, HashSet};
use std::fs::{read_dir, read_to_string};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::text::anchor;

/// What no document speaks about: what is not kept, and scripts that are on their way out.
const LEFT_OUT: [&str; 3] = [".git", ".local", "target"];

/// A name that ends so is a file's, wherever it begins.
const EXTENSIONS: [&str; 10] =
    [".rs", ".md", ".toml", ".py", ".sh", ".svg", ".png", ".csv", ".json", ".lock"];

/// A name that ends so is a file's even without a folder.
const EXTENSIONS_BARE: [&str; 2] = [".rs", ".md"];

/// The repository's files and folders, relative to its root.
pub struct Tree {
    root: PathBuf,
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    packages: HashSet<String>,
    programs: HashSet<String>,
}

impl Tree {
    /// Reads what there is.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree {
            root: root.to_owned(),
            files: BTreeSet::new(),
            folders: BTreeSet::new(),
            packages: HashSet::new(),
            programs: HashSet::new(),
        };
        tree.add(Path::new(""))?;
        for manifest in tree.files.iter().filter(|file| file.ends_with("Cargo.toml")) {
            let manifest = read_to_string(root.join(manifest))?;
            tree.packages.extend(names(&manifest, "[package]"));
            tree.programs.extend(names(&manifest, "[[bin]]"));
        }
        Ok(tree)
    }

    fn add(&mut self, folder: &Path) -> io::Result<()> {
        for entry in read_dir(self.root.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                self.add(&path)?;
                self.folders.insert(path);
            } else {
                self.files.insert(path);
            }
        }
        Ok(())
    }

    /// All files, relative to the root.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// What is named in quoted words of `file`, and is not there.
    pub fn problems(&self, file: &Path, words: &str) -> Vec<String> {
        let words: Vec<&str> = words.split_whitespace().map(bare).collect();
        let paths = words.iter().filter(|word| self.is_path(word) && !self.exists(file, word));
        let paths = paths.map(|path| format!("there is no {path}"));
        let options = words.windows(2).filter_map(|pair| self.option_problem(pair[0], pair[1]));
        paths.chain(options).collect()
    }

    /// Whether a word names a file or folder of this repository.
    fn is_path(&self, word: &str) -> bool {
        let good = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if !word.chars().all(good) || word.starts_with('/') || is_left_out(word) {
            return false;
        }
        let ends_with = |extensions: &[&str]| {
            extensions
                .iter()
                .any(|extension| word.len() > extension.len() && word.ends_with(extension))
        };
        match word.split_once('/') {
            Some((first, _)) => ends_with(&EXTENSIONS) || self.folders.contains(Path::new(first)),
            None => ends_with(&EXTENSIONS_BARE),
        }
    }

    /// Whether `name` is there, seen from the root or from the folder of `file`.
    fn exists(&self, file: &Path, name: &str) -> bool {
        let beside = file.parent().unwrap_or(Path::new("")).join(name);
        [Some(PathBuf::from(name)), resolved(&beside)].into_iter().flatten().any(|path| {
            let path: PathBuf = path.components().collect();
            self.files.contains(&path) || self.folders.contains(&path)
        })
    }

    /// `-p NAME`, `--bin NAME` and `--example NAME` have to name something of this workspace.
    fn option_problem(&self, option: &str, name: &str) -> Option<String> {
        let file = format!("{name}.rs");
        let in_folder = |folder: &str| {
            let end = Path::new(folder).join(&file);
            self.files.iter().any(|path| path.ends_with(&end))
        };
        let (there, what) = match option {
            "-p" => (self.packages.contains(name), "package"),
            "--bin" => (self.programs.contains(name) || in_folder("src/bin"), "program"),
            "--example" => (in_folder("examples"), "example"),
            _ => return None,
        };
        // In capital letters it stands for any name.
        let there = there || !name.contains(|c: char| c.is_lowercase());
        (!there).then(|| format!("there is no {what} {name}"))
    }

    /// What is wrong with the target of a link in `file`: no such file, or no such heading in it.
    pub fn link_problem(&self, file: &Path, target: &str) -> io::Result<Option<String>> {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let markdown = file.extension().is_some_and(|extension| extension == "md");
        // In Rust a link mostly names an item, which `cargo doc` checks.
        if target.contains("://") || (!markdown && !self.is_path(path)) {
            return Ok(None);
        }
        let beside = match path {
            "" => file.to_owned(),
            path => file.parent().unwrap_or(Path::new("")).join(path),
        };
        let there = resolved(&beside);
        let Some(there) =
            there.filter(|path| self.files.contains(path) || self.folders.contains(path))
        else {
            return Ok(Some(format!("there is no {path} to link to")));
        };
        if heading.is_empty() || there.extension().is_none_or(|extension| extension != "md") {
            return Ok(None);
        }
        let page = read_to_string(self.root.join(&there))?;
        let mut headings =
            page.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
        let found = headings.any(|text| anchor(text) == heading);
        Ok((!found).then(|| format!("{} has no heading {heading}", there.display())))
    }
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    let word = word.trim_matches(['(', ')', '[', ']', ',', ';', ':', '"', '\'', '!', '?']);
    word.trim_end_matches(['.', '/']).trim_start_matches("./")
}

fn is_left_out(word: &str) -> bool {
    LEFT_OUT.iter().any(|left_out| Path::new(word).starts_with(left_out))
}

/// The path without `..`; nothing where it leaves the repository.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::Normal(part) => plain.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// The names in the sections of a manifest that have this head.
fn names(manifest: &str, head: &str) -> Vec<String> {
    let mut section = "";
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.strip_prefix("name = \"").and_then(|name| name.strip_suffix('"'));
        names.extend(name.filter(|_| section == head).map(str::to_owned));
    }
    names
}
