// Checks the rounding of latencies and their order when merged.
package contract

import (
	"encoding/json"
	"testing"
	"time"
)

func TestLatenciesRoundUpToThreeDigits(t *testing.T) {
	var some, others Latencies
	for _, nanoseconds := range []time.Duration{1234, 999, 7, -3, 1234, 1_000_001, 998_001} {
		some.Add(nanoseconds)
	}
	others.Add(1231)
	others.Add(1 << 62)
	some.Merge(&others)
	got, err := json.Marshal(&some)
	want := "[[0,1],[7,1],[999,1],[1240,3],[999000,1],[1010000,1],[4620000000000000000,1]]"
	if err != nil || string(got) != want {
		t.Errorf("got %s, error %v, want %s", got, err, want)
	}
}

func TestNoLatencyIsAnEmptyList(t *testing.T) {
	if got, _ := json.Marshal(new(Latencies)); string(got) != "[]" {
		t.Errorf("got %s", got)
	}
}
