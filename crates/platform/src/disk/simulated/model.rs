//! The states that the platter of a simulated disk may have: a durable base, and changes on their way that a crash may lose.
//!
//! Every change is an item in order. `Durable` items are there after any crash; `Pending` ones may or may not be, each by
//! itself, until a sync makes them durable; `Doubtful` ones may or may not be and no later sync helps them: they were under
//! way when a write or a sync failed (as ext4 does: the failed pages count as clean from then on).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::change::{
    ContentChange, DirectoryId, Effect, Entry, FileId, NameChange, Place, Standing, reachable,
};
use super::content::Content;
use crate::disk::BLOCK_BYTES;

/// `fill_with_zeros` reaches the disk in steps of this size; a step over nothing but zeros is one item.
const FILL_STEP_BYTES: u64 = 1 << 20;
const SECTOR_BYTES: usize = 512;

#[derive(Debug, Clone)]
struct Item<C> {
    id: u64,
    standing: Standing,
    change: C,
    /// An item without which this one cannot be there.
    needs: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct FileState {
    base: Arc<Content>,
    items: Vec<Item<ContentChange>>,
}

/// A platter and what is on its way to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    names: BTreeMap<Place, Entry>,
    name_items: Vec<Item<NameChange>>,
    files: BTreeMap<FileId, FileState>,
    next_item: u64,
}

/// The standing of an operation: it has returned, or the crash strikes while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Returned,
    /// Nothing of it is certain; it is torn at blocks, or (`true`) at sectors.
    Running {
        sector_tears: bool,
    },
}

/// The rest after a crash: names that can be reached and the content of their files.
pub(super) struct Remains {
    pub(super) names: BTreeMap<Place, Entry>,
    pub(super) contents: BTreeMap<FileId, Arc<Content>>,
}

impl Model {
    pub(super) fn from_remains(remains: &Remains) -> Model {
        let files = remains.contents.iter().map(|(file, base)| {
            (
                *file,
                FileState {
                    base: Arc::clone(base),
                    items: Vec::new(),
                },
            )
        });
        Model {
            names: remains.names.clone(),
            files: files.collect(),
            ..Model::default()
        }
    }

    /// The id the next item gets; ids below belong to earlier operations.
    pub(super) fn next_item(&self) -> u64 {
        self.next_item
    }

    pub(super) fn apply(&mut self, effect: &Effect, progress: Progress) {
        match (effect, progress) {
            (Effect::Name(change), _) => self.add_name(change.clone()),
            (
                Effect::Content {
                    file,
                    change,
                    standing,
                },
                Progress::Returned,
            ) => {
                self.add_content(*file, change, *standing, BLOCK_BYTES);
            }
            (Effect::Content { file, change, .. }, Progress::Running { sector_tears }) => {
                let grain = if sector_tears { SECTOR_BYTES } else { BLOCK_BYTES };
                self.add_content(*file, change, Standing::Pending, grain);
            }
            // A sync that has not returned has promised nothing.
            (_, Progress::Running { .. }) => {}
            (Effect::SyncFile { file }, _) => self.settle(*file, Standing::Durable),
            (Effect::FailSync { file }, _) => self.settle(*file, Standing::Doubtful),
            (Effect::SyncDirectory { directory }, _) => self.sync_directory(*directory),
            (Effect::FailSyncDirectory { directory }, _) => self.fail_sync_directory(*directory),
            (Effect::DropDoubtful, _) => {
                for state in self.files.values_mut() {
                    state.items.retain(|item| item.standing != Standing::Doubtful);
                    state.fold();
                }
            }
            (Effect::Overwrite { file, content }, _) => {
                self.files.insert(
                    *file,
                    FileState {
                        base: Arc::clone(content),
                        items: Vec::new(),
                    },
                );
            }
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_item += 1;
        self.next_item - 1
    }

    fn add_name(&mut self, change: NameChange) {
        let needs = matches!(change, NameChange::DropMoved { .. }).then(|| self.next_item - 1);
        let id = self.new_id();
        self.name_items.push(Item {
            id,
            standing: Standing::Pending,
            change,
            needs,
        });
    }

    fn add_content(&mut self, file: FileId, change: &ContentChange, standing: Standing, grain: usize) {
        let first_id = self.next_item;
        let state = self.files.entry(file).or_default();
        let parts = if standing == Standing::Durable {
            state.drop_superseded(change);
            vec![change.clone()]
        } else {
            state.parts(change, grain)
        };
        for (id, change) in (first_id..).zip(parts) {
            state.items.push(Item {
                id,
                standing,
                change,
                needs: None,
            });
            self.next_item = id + 1;
        }
        state.fold();
    }

    /// Pending changes of a file become durable, or doubtful.
    fn settle(&mut self, file: FileId, standing: Standing) {
        let state = self.files.entry(file).or_default();
        for item in &mut state.items {
            if item.standing == Standing::Pending {
                item.standing = standing;
            }
        }
        state.fold();
    }

    /// Pending names of a directory become durable. Half a rename takes the other half with it.
    fn sync_directory(&mut self, directory: DirectoryId) {
        let mut also = BTreeSet::new();
        for item in &mut self.name_items {
            if item.change.directory() == directory && item.standing == Standing::Pending {
                item.standing = Standing::Durable;
                also.extend(item.needs);
            }
        }
        for item in &mut self.name_items {
            if also.contains(&item.id) {
                item.standing = Standing::Durable;
            }
        }
        self.fold_names();
    }

    fn fail_sync_directory(&mut self, directory: DirectoryId) {
        for item in &mut self.name_items {
            if item.change.directory() == directory && item.standing == Standing::Pending {
                item.standing = Standing::Doubtful;
            }
        }
    }

    /// Moves durable names into the base, unless an earlier change of the same place is still open: order matters there.
    fn fold_names(&mut self) {
        let mut open: BTreeSet<Place> = BTreeSet::new();
        let items = std::mem::take(&mut self.name_items);
        for item in items {
            let places = item.change.places();
            if item.standing == Standing::Durable && !places.iter().any(|place| open.contains(*place)) {
                item.change.apply(&mut self.names);
            } else {
                open.extend(places.into_iter().cloned());
                self.name_items.push(item);
            }
        }
    }

    /// The items a crash may lose, ascending, of names and of every file that some crash could leave a name for.
    pub(super) fn optional(&self) -> Vec<u64> {
        let mut nameable: BTreeSet<FileId> = self.names.values().filter_map(Entry::file).collect();
        nameable.extend(
            self.name_items
                .iter()
                .filter_map(|item| item.change.entry()?.file()),
        );
        let mut ids: Vec<u64> = self
            .files
            .iter()
            .filter(|(file, _)| nameable.contains(file))
            .flat_map(|(_, state)| &state.items)
            .filter(|item| item.standing != Standing::Durable)
            .map(|item| item.id)
            .collect();
        ids.extend(
            self.name_items
                .iter()
                .filter(|item| item.standing != Standing::Durable)
                .map(|item| item.id),
        );
        ids.sort_unstable();
        ids
    }

    /// Says whether some crash could leave a name for a file.
    pub(super) fn may_be_named(&self, file: FileId) -> bool {
        let is_it = |(_, entry): &(&Place, &Entry)| entry.file() == Some(file);
        let mut named: BTreeSet<&Place> = self.names.iter().filter(is_it).map(|(place, _)| place).collect();
        for item in &self.name_items {
            if item.standing == Standing::Durable {
                item.change.places().into_iter().for_each(|place| {
                    named.remove(place);
                });
            }
            if item.change.entry().and_then(Entry::file) == Some(file) {
                named.extend(item.change.target());
            }
        }
        !named.is_empty()
    }

    /// The files that a crash leaves if, of the optional items, exactly `kept` have reached the disk.
    pub(super) fn remains(&self, kept: &BTreeSet<u64>) -> Remains {
        let mut names = self.names.clone();
        let mut absent = BTreeSet::new();
        for item in &self.name_items {
            let has_what_it_needs = item.needs.is_none_or(|needed| !absent.contains(&needed));
            if item.standing == Standing::Durable || (kept.contains(&item.id) && has_what_it_needs) {
                item.change.apply(&mut names);
            } else {
                absent.insert(item.id);
            }
        }
        let names = reachable(&names);
        let contents = names
            .values()
            .filter_map(Entry::file)
            .map(|file| (file, self.content(file, kept)));
        Remains {
            contents: contents.collect(),
            names,
        }
    }

    fn content(&self, file: FileId, kept: &BTreeSet<u64>) -> Arc<Content> {
        let Some(state) = self.files.get(&file) else {
            return Arc::default();
        };
        let mut content = Arc::clone(&state.base);
        for item in &state.items {
            if item.standing == Standing::Durable || kept.contains(&item.id) {
                item.change.apply(Arc::make_mut(&mut content));
            }
        }
        content
    }

    /// The file without what is in doubt: what the process sees once the page cache is gone.
    pub(super) fn content_without_doubtful(&self, file: FileId) -> Arc<Content> {
        let items = self.files.get(&file).map_or(&[][..], |state| &state.items);
        let kept = items
            .iter()
            .filter(|item| item.standing == Standing::Pending)
            .map(|item| item.id)
            .collect();
        self.content(file, &kept)
    }
}

impl FileState {
    /// Moves the leading durable items into the base.
    fn fold(&mut self) {
        let durable = self
            .items
            .iter()
            .take_while(|item| item.standing == Standing::Durable)
            .count();
        for item in self.items.drain(..durable) {
            item.change.apply(Arc::make_mut(&mut self.base));
        }
    }

    /// Forgets items that a durable write of `change` hides in every crash, to keep the choices few.
    fn drop_superseded(&mut self, change: &ContentChange) {
        let Some((first, end)) = change.range() else {
            return;
        };
        self.items.retain(|item| match (&item.change, item.standing) {
            (_, Standing::Durable) => true,
            (ContentChange::Grow { length }, _) => *length > end,
            (other, _) => !other.range().is_some_and(|(from, to)| from >= first && to <= end),
        });
    }

    /// The parts of a change that reach the disk each by itself: its blocks, and the new length apart from them (a file may
    /// come back longer with zeros where the data should be).
    fn parts(&self, change: &ContentChange, grain: usize) -> Vec<ContentChange> {
        let Some((first, end)) = change.range() else {
            return vec![change.clone()];
        };
        let mut parts = Vec::new();
        if self.base.length() < end {
            parts.push(ContentChange::Grow { length: end });
        }
        match change {
            ContentChange::Write { bytes, .. } => {
                let starts = (0..bytes.len()).step_by(grain);
                parts.extend(starts.map(|start| ContentChange::Write {
                    position: first + start as u64,
                    bytes: bytes.slice(start..bytes.len().min(start + grain)),
                }));
            }
            _ => {
                let mut at = first;
                while at < end {
                    let step = self.zero_step(at, (end - at).min(FILL_STEP_BYTES));
                    parts.push(ContentChange::Zeros {
                        position: at,
                        length: step,
                    });
                    at += step;
                }
            }
        }
        parts
    }

    /// Zeros over zeros tear without a trace, so the whole step is one item; elsewhere each block is.
    fn zero_step(&self, position: u64, length: u64) -> u64 {
        let touched = self.items.iter().any(|item| {
            item.change
                .range()
                .is_some_and(|(from, to)| from < position + length && position < to)
        });
        if touched || !self.base.is_zero(position, length) {
            BLOCK_BYTES as u64
        } else {
            length
        }
    }
}
