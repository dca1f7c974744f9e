//! Names of objects with the types of their values. They cost nothing, and hold nothing.

use std::fmt;
use std::marker::PhantomData;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T> {
            name: String,
            of: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            /// The object with this name, whether or not it is there yet.
            #[must_use]
            pub fn new(name: impl Into<String>) -> Self {
                Self {
                    name: name.into(),
                    of: PhantomData,
                }
            }

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                &self.name
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.debug_tuple(stringify!($name)).field(&self.name).finish()
            }
        }
    };
}

handle!(
    /// A map from text to values.
    Map
);
handle!(
    /// A queue: what came first is taken first.
    Queue
);
handle!(
    /// One value, or none.
    Register
);

/// A number that processes add to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    name: String,
}

impl Counter {
    /// The counter with this name, whether or not it is there yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Counter {
        Counter { name: name.into() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
