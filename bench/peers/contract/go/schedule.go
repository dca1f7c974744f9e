// The open loop's schedule, fixed before the first record is sent, and a clock precise enough to keep it. The runtime's own
// timers round waits of less than a millisecond up to one; the kernel's timer descriptors do not, and a goroutine that
// waits for one holds no processor.
package contract

import (
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// share is how many of `all` fall to one of several.
func share(all int64, one, of int) int64 {
	part := all / int64(of)
	if int64(one) < all%int64(of) {
		part++
	}
	return part
}

// packing is how a phase's records go into requests: a request is full, or ends with its batch, or with the phase.
type packing struct {
	batch   int64
	request int64
}

// last is the last record of the request that holds a record. The phase has so many records; negative is no end.
func (p packing) last(record, all int64) int64 {
	inBatch := record % p.batch
	last := record - inBatch + min((inBatch/p.request+1)*p.request, p.batch) - 1
	if all >= 0 {
		last = min(last, all-1)
	}
	return last
}

// schedule says when records are due.
type schedule struct {
	start     time.Time
	rate      float64 // of all producers together
	producers int
}

// due is the time of a producer's record, counted from 0.
func (s schedule) due(producer int, record int64) time.Time {
	number := float64(record)*float64(s.producers) + float64(producer)
	return s.start.Add(time.Duration(number / s.rate * float64(time.Second)))
}

// lastDue is the last of a producer's records from first to last that is due by now; the first is.
func (s schedule) lastDue(producer int, first, last int64, now time.Time) int64 {
	record := first
	for record < last && !s.due(producer, record+1).After(now) {
		record++
	}
	return record
}

// measuredShares is how many measured records each producer has in the open loop. A time is so many records due in it.
func (c AppendCommand) measuredShares() []int64 {
	records := c.Records
	if c.Seconds > 0 {
		due := recordsDue(c.Rate, c.Seconds)
		if records < 0 || due < records {
			records = due
		}
	}
	shares := make([]int64, c.Producers)
	for producer := range shares {
		shares[producer] = share(records, producer, c.Producers)
	}
	return shares
}

// recordsDue is how many records in all are due within so many seconds.
func recordsDue(rate, seconds float64) int64 {
	return max(int64(math.Round(rate*seconds)), 1)
}

// alarm waits until a time. It is used by one goroutine.
type alarm struct {
	file *os.File
	fd   int
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a timer for a producer: %w; raise the limit of open files", err)
	}
	return &alarm{file: os.NewFile(uintptr(fd), "timer"), fd: fd}, nil
}

func (a *alarm) waitUntil(due time.Time) error {
	wait := time.Until(due)
	if wait <= 0 {
		return nil
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(wait.Nanoseconds())}
	if err := unix.TimerfdSettime(a.fd, 0, &once, nil); err != nil {
		return fmt.Errorf("cannot set a producer's timer: %w", err)
	}
	var expirations [8]byte
	if _, err := a.file.Read(expirations[:]); err != nil {
		return fmt.Errorf("cannot wait for a producer's timer: %w", err)
	}
	return nil
}

func (a *alarm) close() {
	a.file.Close()
}
