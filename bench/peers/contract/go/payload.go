// Payloads: what record s of producer p must be, byte by byte, so that whoever reads it back can tell. The README says how
// they are made; payload_test.go checks its table of sums.
package contract

import (
	"fmt"
	"strconv"
)

const (
	letters      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	startsLeast  = 1 << 20
	startsMost   = 1 << 26
	recordsApart = 64
	strideLeast  = 4093
	poolSeed     = 0x9E3779B97F4A7C15
)

// Payloads makes the records of one size.
type Payloads struct {
	recordBytes int
	pool        []byte
	// Letters of a record begin below starts, a power of two, and those of the next stride later.
	starts, stride uint64
}

// NewPayloads makes the pool of letters for records of recordBytes bytes, at least 16.
func NewPayloads(recordBytes int) *Payloads {
	if recordBytes < stampBytes {
		panic("a record has room for its stamp: " + strconv.Itoa(recordBytes) + " bytes are too few")
	}
	starts := uint64(startsLeast)
	for starts < startsMost && starts < recordsApart*uint64(recordBytes) {
		starts *= 2
	}
	pool := make([]byte, int(starts)+recordBytes)
	state := uint64(poolSeed) ^ uint64(recordBytes)
	for i := range pool {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		pool[i] = letters[(state>>32)%uint64(len(letters))]
	}
	stride := max(strideLeast, uint64(recordBytes)|1)
	return &Payloads{recordBytes: recordBytes, pool: pool, starts: starts, stride: stride}
}

// Fill writes record `number` of a producer into a buffer of the record's size.
func (p *Payloads) Fill(record []byte, producer int, number int64) {
	writeHex(record[0:4], uint64(producer))
	writeHex(record[4:stampBytes], uint64(number))
	from := (uint64(number)*p.stride + uint64(producer)*65537) & (p.starts - 1)
	copy(record[stampBytes:p.recordBytes], p.pool[from:])
}

// ReadStamp tells whose record this is, and which.
func ReadStamp(record []byte) (producer int, number int64, err error) {
	if len(record) < stampBytes {
		return 0, 0, fmt.Errorf("a record of %d bytes has no stamp", len(record))
	}
	high, wrongHigh := readHex(record[0:4])
	low, wrongLow := readHex(record[4:stampBytes])
	if wrongHigh || wrongLow {
		return 0, 0, fmt.Errorf("a record begins with %q, which is no stamp", record[:stampBytes])
	}
	return int(high), int64(low), nil
}

func writeHex(to []byte, value uint64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = "0123456789abcdef"[value&15]
		value >>= 4
	}
}

func readHex(from []byte) (value uint64, wrong bool) {
	for _, digit := range from {
		switch {
		case digit >= '0' && digit <= '9':
			value = value<<4 | uint64(digit-'0')
		case digit >= 'a' && digit <= 'f':
			value = value<<4 | uint64(digit-'a'+10)
		default:
			return 0, true
		}
	}
	return value, false
}
