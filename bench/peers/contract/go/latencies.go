// Latencies: how many requests took how long, to three significant digits, rounded up. Each goroutine fills its own; they
// are merged at the end.
package contract

import (
	"bytes"
	"fmt"
	"time"
)

// Latencies counts durations. Scale e holds those of a number from 100 to 999 times 10^e nanoseconds; scale 0 also the
// shorter ones. Scales are made when first used: most runs touch four of them.
type Latencies struct {
	scales [17]*[1000]int64
}

// Add counts one duration. A negative one counts as 0: a clock read twice in the same instant.
func (l *Latencies) Add(took time.Duration) {
	l.add(max(took.Nanoseconds(), 0), 1)
}

// Merge adds what another has counted.
func (l *Latencies) Merge(other *Latencies) {
	other.each(l.add)
}

func (l *Latencies) add(nanoseconds, count int64) {
	scale, unit := 0, int64(1)
	for (nanoseconds-1)/unit >= 999 {
		scale, unit = scale+1, unit*10
	}
	number := (nanoseconds + unit - 1) / unit
	if l.scales[scale] == nil {
		l.scales[scale] = new([1000]int64)
	}
	l.scales[scale][number] += count
}

// each visits the counted durations in ascending order.
func (l *Latencies) each(visit func(nanoseconds, count int64)) {
	unit := int64(1)
	for _, numbers := range l.scales {
		if numbers != nil {
			for number, count := range numbers {
				if count > 0 {
					visit(int64(number)*unit, count)
				}
			}
		}
		unit *= 10
	}
}

// MarshalJSON writes the contract's pairs of nanoseconds and count.
func (l *Latencies) MarshalJSON() ([]byte, error) {
	var pairs bytes.Buffer
	separator := '['
	l.each(func(nanoseconds, count int64) {
		fmt.Fprintf(&pairs, "%c[%d,%d]", separator, nanoseconds, count)
		separator = ','
	})
	if pairs.Len() == 0 {
		return []byte("[]"), nil
	}
	pairs.WriteByte(']')
	return pairs.Bytes(), nil
}
