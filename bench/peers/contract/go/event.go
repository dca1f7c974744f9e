// Events of the contract: what a driver answers, one JSON object a line. Nothing else may be written to standard output.
package contract

import (
	"encoding/json"
	"io"
	"sync"
)

type describedEvent struct {
	Event    string            `json:"event"`
	Client   string            `json:"client"`
	Version  string            `json:"version"`
	Settings map[string]string `json:"settings"`
}

type plainEvent struct {
	Event string `json:"event"`
}

type leaderEvent struct {
	Event string `json:"event"`
	Node  int    `json:"node"`
}

type progressEvent struct {
	Event   string `json:"event"`
	Records int64  `json:"records"`
}

type failedEvent struct {
	Event string `json:"event"`
	Why   string `json:"why"`
}

type appendedEvent struct {
	Event      string     `json:"event"`
	Seconds    float64    `json:"seconds"`
	Records    int64      `json:"records"`
	Bytes      int64      `json:"bytes"`
	Errors     int64      `json:"errors"`
	FirstError *string    `json:"first_error"`
	Appended   []int64    `json:"appended"`
	Latency    *Latencies `json:"latency_ns"`
	Delivery   *Latencies `json:"delivery_ns"`
}

type readEvent struct {
	Event      string     `json:"event"`
	Seconds    float64    `json:"seconds"`
	Records    int64      `json:"records"`
	Bytes      int64      `json:"bytes"`
	Errors     int64      `json:"errors"`
	FirstError *string    `json:"first_error"`
	Crc32Sum   *uint64    `json:"crc32_sum"`
	OutOfOrder *int64     `json:"out_of_order"`
	Latency    *Latencies `json:"latency_ns"`
}

// events writes them; `progress` comes from another goroutine than the rest.
type events struct {
	lock    sync.Mutex
	encoder *json.Encoder
}

func newEvents(to io.Writer) *events {
	return &events{encoder: json.NewEncoder(to)}
}

// write panics when nobody reads: a driver without its harness has nothing left to do.
func (e *events) write(event any) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if err := e.encoder.Encode(event); err != nil {
		panic("cannot write an event to standard output: " + err.Error())
	}
}

func (e *events) plain(name string) {
	e.write(plainEvent{Event: name})
}

func (e *events) failed(why error) {
	e.write(failedEvent{Event: "failed", Why: why.Error()})
}

// firstError is null in the event when there was none.
func firstError(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
