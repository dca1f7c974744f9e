// Checks how records are shared out and when they are due.
package contract

import (
	"testing"
	"time"
)

func TestRecordsAreSharedOutEvenly(t *testing.T) {
	want := []int64{3, 3, 2, 2}
	for one, records := range want {
		if got := share(10, one, 4); got != records {
			t.Errorf("producer %d of 4 gets %d of 10 records, want %d", one, got, records)
		}
	}
}

func TestDueTimesInterleaveProducers(t *testing.T) {
	plan := schedule{start: time.Now(), rate: 1000, producers: 4}
	if got := plan.due(3, 2).Sub(plan.start); got != 11*time.Millisecond {
		t.Errorf("record 2 of producer 3 is due after %v, want 11ms", got)
	}
	if got := recordsDue(1000, 2.5); got != 2500 {
		t.Errorf("%d records are due in 2.5 s at 1000/s", got)
	}
}

func TestWhatIsDueGoesTogether(t *testing.T) {
	plan := schedule{start: time.Now(), rate: 1000, producers: 2}
	for after, want := range map[time.Duration]int64{9 * time.Millisecond: 4, 10 * time.Millisecond: 4, 11 * time.Millisecond: 5, time.Hour: 7} {
		if got := plan.lastDue(1, 4, 7, plan.start.Add(after)); got != want {
			t.Errorf("after %v, record %d is the last that is due, want %d", after, got, want)
		}
	}
}

func TestWhicheverEndComesFirstIsMet(t *testing.T) {
	for _, command := range []AppendCommand{
		{Records: 10, Seconds: 100, Rate: 1, Producers: 2},
		{Records: 100, Seconds: 10, Rate: 1, Producers: 2},
		{Records: -1, Seconds: 10, Rate: 1, Producers: 2},
		{Records: 10, Rate: 1, Producers: 2},
	} {
		if shares := command.measuredShares(); shares[0]+shares[1] != 10 {
			t.Errorf("%+v: %v", command, shares)
		}
	}
	closed := phase{records: 5, deadline: time.Now()}
	if !closed.over(time.Now()) || (phase{records: 5}).over(time.Now()) {
		t.Error("a deadline ends a phase that has one, whatever its number of records")
	}
}

func TestRequestsEndWithTheirBatch(t *testing.T) {
	packs := packing{batch: 10, request: 4}
	for record, want := range map[int64]int64{0: 3, 3: 3, 4: 7, 8: 9, 9: 9, 10: 13, 20: 21, 21: 21} {
		if got := packs.last(record, 22); got != want {
			t.Errorf("the request of record %d ends with %d, want %d", record, got, want)
		}
	}
}

func TestAlarmWaitsShortTimes(t *testing.T) {
	clock, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer clock.close()
	due := time.Now().Add(300 * time.Microsecond)
	if err := clock.waitUntil(due); err != nil {
		t.Fatal(err)
	}
	if late := time.Since(due); late < 0 {
		t.Errorf("woke %v too early", -late)
	}
}
