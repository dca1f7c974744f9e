// Checks from when deliveries count.
package contract

import (
	"testing"
	"time"
)

func TestDeliveriesCountFromEachRecordsOwnTime(t *testing.T) {
	tail := &followers{
		command:   AppendCommand{Producers: 1, BatchRecords: 10, WarmupRecords: 5, Records: 10, Rate: 0.01},
		latencies: make([]Latencies, 1),
		failed:    make(chan error, 1),
	}
	// A record is due every 100 s; all ten of a batch were within the last 1000 s.
	tail.begin(schedule{start: time.Now().Add(-1000 * time.Second), rate: 0.01, producers: 1})
	payloads := NewPayloads(stampBytes)
	record := make([]byte, stampBytes)
	for _, number := range []int64{4, 5, 8} { // the last of the warm-up, the first and the fourth that are measured
		payloads.Fill(record, 0, number)
		tail.take(0, record)
	}
	var hundreds []int64
	tail.latencies[0].each(func(nanoseconds, _ int64) {
		hundreds = append(hundreds, nanoseconds/int64(100*time.Second))
	})
	if len(hundreds) != 2 || hundreds[0] != 7 || hundreds[1] != 10 {
		t.Errorf("deliveries took %v times 100 s, want those of the records due 700 s and 1000 s ago", hundreds)
	}
	if got := tail.delivered.Load(); got != 2 {
		t.Errorf("%d measured records were delivered, want 2", got)
	}
}
