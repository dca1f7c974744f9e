//! The configs that are set for one resource: a topic, a broker or a group. Each sort of resource knows its own names and rules.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{ConfigChange, ConfigError};

/// A sort of resource that has configs.
pub trait ConfigSort {
    /// Checks that a change may be made, and gives the name of its config.
    ///
    /// # Errors
    /// There is no such config, or the value breaks its rule.
    fn check(change: &ConfigChange) -> Result<&'static str, ConfigError>;
}

/// Values by the names of their configs. Each is valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigValues<S> {
    values: BTreeMap<&'static str, Arc<str>>,
    sort: PhantomData<S>,
}

impl<S: ConfigSort> ConfigValues<S> {
    /// Nothing set.
    #[must_use]
    pub fn new() -> ConfigValues<S> {
        ConfigValues {
            values: BTreeMap::new(),
            sort: PhantomData,
        }
    }

    /// Checks that a change may be made.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(change: &ConfigChange) -> Result<(), ConfigError> {
        S::check(change).map(drop)
    }

    /// Makes all changes or, if one is refused, none.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn change(&mut self, changes: &[ConfigChange]) -> Result<(), ConfigError> {
        changes.iter().try_for_each(Self::check)?;
        for change in changes {
            let name = S::check(change)?;
            match &change.value {
                Some(value) => self.values.insert(name, Arc::clone(value)),
                None => self.values.remove(name),
            };
        }
        Ok(())
    }

    /// The value set here, if one is.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<str>> {
        self.values.get(name)
    }

    /// Says whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values that are set here, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Arc<str>)> + '_ {
        self.values.iter().map(|(name, value)| (*name, value))
    }
}
