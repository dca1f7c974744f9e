package contract

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestWhatFailsIsSentAgainUntilItSucceeds(t *testing.T) {
	sent := 0
	err := Again(10*time.Millisecond, func(once context.Context) error {
		sent++
		switch sent {
		case 1:
			return errors.New("the node is gone")
		case 2:
			<-once.Done() // one that never answers
			return once.Err()
		}
		return nil
	})
	if err != nil || sent != 3 {
		t.Fatalf("%v after %d times", err, sent)
	}
}
