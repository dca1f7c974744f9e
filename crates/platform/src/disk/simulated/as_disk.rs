//! The calls of `Disk` on a simulated disk, as the process makes them: each becomes one change of the state, or is refused as
//! a real disk refuses it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::SimulatedDisk;
use super::change::{Effect, Entry, FileId, NameChange, ROOT, entries_of};
use super::faults::OperationKind;
use super::file::SimulatedFile;
use super::state::About;
use crate::disk::relative_path::{names, parent_and_name, replacement_name};
use crate::disk::{Disk, DurableWriteMode, File, Lock};

impl SimulatedDisk {
    fn handle(&self, file: FileId, path: &Path) -> Arc<dyn File> {
        Arc::new(SimulatedFile::new(self.clone(), file, path.to_path_buf()))
    }

    fn write_aside(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.remove(path)?;
        self.create(path)?;
        let mut state = self.state();
        let file = state.file(path)?;
        let bytes = Bytes::copy_from_slice(content);
        let about = About {
            length: bytes.len() as u64,
            ..About::whole(OperationKind::Write, path)
        };
        state.write(file, about, &bytes)?;
        state.sync(file, path)
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.look(OperationKind::Open, path)?;
        let file = state.file(path)?;
        drop(state);
        Ok(self.handle(file, path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let place = state.place(path)?;
        if state.names.contains_key(&place) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.new_id();
        let effects = vec![Effect::Name(NameChange::Put {
            place,
            entry: Entry::File(file),
        })];
        state.change_names(About::whole(OperationKind::Create, path), effects)?;
        drop(state);
        Ok(self.handle(file, path))
    }

    fn read_whole(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.look(OperationKind::ReadWhole, path)?;
        let content = state.content(state.file(path)?);
        match usize::try_from(content.length()) {
            Ok(length) if length <= bytes_max => Ok(content.read(0, length).into()),
            _ => {
                let message = format!("{} is longer than {bytes_max} bytes", path.display());
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }

    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (above, name) = parent_and_name(path)?;
        let directory: PathBuf = above.iter().collect();
        let aside = directory.join(replacement_name(name));
        if let Err(error) = self
            .write_aside(&aside, content)
            .and_then(|()| self.rename(&aside, path))
        {
            // As on a real disk: the first error is the one to report.
            let _ = self.remove(&aside);
            return Err(error);
        }
        self.sync_directory(&directory)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.look(OperationKind::List, directory)?;
        match state.directory(&names(directory)?) {
            Ok(id) => Ok(entries_of(&state.names, id)
                .map(|((_, name), _)| name.clone())
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        let mut effects = Vec::new();
        let mut above = ROOT;
        let names = names(directory)?;
        for (depth, name) in names.iter().enumerate() {
            let place = (above, (*name).to_owned());
            above = match state.names.get(&place) {
                Some(Entry::Directory(below)) => *below,
                Some(Entry::File(_)) if depth + 1 == names.len() => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    let id = state.new_id();
                    effects.push(Effect::Name(NameChange::Put {
                        place,
                        entry: Entry::Directory(id),
                    }));
                    id
                }
            };
        }
        state.change_names(About::whole(OperationKind::CreateDirectory, directory), effects)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let entry = Entry::File(state.file(from)?);
        let (source, target) = (state.place(from)?, state.place(to)?);
        if let Some(Entry::Directory(_)) = state.names.get(&target) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let changes = if source == target {
            vec![]
        } else if source.0 == target.0 {
            vec![NameChange::Move {
                from: source,
                to: target,
                entry,
            }]
        } else {
            vec![
                NameChange::Put { place: target, entry },
                NameChange::DropMoved { place: source },
            ]
        };
        let effects = changes.into_iter().map(Effect::Name).collect();
        state.change_names(About::whole(OperationKind::Rename, from), effects)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let effects = match state.file(path) {
            Ok(_) => vec![Effect::Name(NameChange::Drop {
                place: state.place(path)?,
            })],
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        state.change_names(About::whole(OperationKind::Remove, path), effects)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        parent_and_name(directory)?;
        let mut effects = Vec::new();
        match state.directory(&names(directory)?) {
            Ok(id) => {
                state.drops_below(id, &mut effects);
                effects.push(Effect::Name(NameChange::Drop {
                    place: state.place(directory)?,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        state.change_names(About::whole(OperationKind::RemoveDirectory, directory), effects)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        let id = state.directory(&names(directory)?)?;
        state.sync_directory(id, directory)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.state();
        state.look(OperationKind::FreeBytes, Path::new(""))?;
        Ok(state.free_bytes())
    }

    fn total_bytes(&self) -> io::Result<u64> {
        Ok(self.state().total_bytes())
    }

    fn lock(&self) -> io::Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.look(OperationKind::Lock, Path::new(""))?;
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        drop(state);
        Ok(Box::new(HeldLock { disk: self.clone() }))
    }

    fn durable_write_mode(&self) -> DurableWriteMode {
        DurableWriteMode::Simulated
    }

    fn root(&self) -> PathBuf {
        PathBuf::from("simulated")
    }
}

struct HeldLock {
    disk: SimulatedDisk,
}

impl Lock for HeldLock {}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.disk.state().locked = false;
    }
}
