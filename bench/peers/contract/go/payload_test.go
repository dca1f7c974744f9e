// Checks payloads by the README's table of sums.
package contract

import (
	"hash/crc32"
	"testing"
)

func TestPayloadSums(t *testing.T) {
	for _, want := range []struct {
		producer, recordBytes int
		records               int64
		sum                   uint64
	}{
		{0, 16, 1, 2717936484},
		{0, 100, 1, 2735468055},
		{3, 100, 1000, 2102778704282},
		{7, 4096, 500, 1041618093517},
		{1, 50000, 100, 198908973652},
		{65535, 1000000, 3, 3807115882},
	} {
		payloads := NewPayloads(want.recordBytes)
		record := make([]byte, want.recordBytes)
		var sum uint64
		for number := range want.records {
			payloads.Fill(record, want.producer, number)
			sum += uint64(crc32.ChecksumIEEE(record))
		}
		if sum != want.sum {
			t.Errorf("producer %d, %d records of %d bytes: sum %d, want %d",
				want.producer, want.records, want.recordBytes, sum, want.sum)
		}
	}
}

func TestStampIsReadBack(t *testing.T) {
	record := make([]byte, 32)
	NewPayloads(32).Fill(record, 65535, 1<<47+5)
	producer, number, err := ReadStamp(record)
	if err != nil || producer != 65535 || number != 1<<47+5 {
		t.Errorf("read back producer %d, number %d, error %v", producer, number, err)
	}
	record[3] = 'X'
	if _, _, err := ReadStamp(record); err == nil {
		t.Error("a stamp with a letter X was accepted")
	}
}
