//! Holds a core against its budgets. Nothing may ever be found here; the simulator looks.

use super::Core;

impl Core {
    /// Says of which budgets more is taken than there is: in bytes, by the names of their configs.
    pub(crate) fn overdrawn(&self) -> Vec<String> {
        let limits = &self.facts.config.limits;
        let mut accounts = vec![
            (
                "limits.in_flight_bytes_per_core",
                self.requests.held_bytes() as u64,
                limits.in_flight_bytes_per_core as u64,
            ),
            (
                "limits.metadata_bytes_per_core",
                self.with_metadata(|metadata| metadata.topics_bytes()) as u64,
                limits.metadata_bytes_per_core as u64,
            ),
        ];
        for shard in self.shards.values() {
            let store = shard.store_status();
            accounts.push(("journal.bytes_max", store.journal_bytes, store.journal_bytes_max));
        }
        let overdrawn = accounts
            .into_iter()
            .filter(|(_, taken, bytes_max)| taken > bytes_max);
        overdrawn
            .map(|(config, taken, bytes_max)| format!("{config}: {taken} bytes of {bytes_max} are taken"))
            .collect()
    }
}
