// Sending again what was not acknowledged, for the `retry` of an `append`.
package contract

import (
	"context"
	"time"
)

const (
	againPatience = 120 * time.Second
	againPause    = 20 * time.Millisecond
	patienceMost  = 3 * time.Second
)

// Again calls `send` until it succeeds, at first for at most `patience` and each time twice as long, up to a limit; its last error when two
// minutes are over. A record that is sent again must be there once.
func Again(patience time.Duration, send func(context.Context) error) error {
	end := time.Now().Add(againPatience)
	for {
		once, cancel := context.WithTimeout(context.Background(), patience)
		err := send(once)
		cancel()
		if err == nil || time.Now().After(end) {
			return err
		}
		patience = min(2*patience, patienceMost)
		time.Sleep(againPause)
	}
}
