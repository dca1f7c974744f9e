// Commands of the comparison's contract (../../README.md): one JSON object a line, read strictly. A field that is needed
// and missing, or out of range, is an error that names it; unknown fields are ignored.
package contract

import (
	"encoding/json"
	"fmt"
	"math"
)

// Log is what `create` asks for.
type Log struct {
	Name     string
	Shards   int
	Nodes    int
	Settings map[string]string
}

// AppendCommand is an `append`. Records is the number in all (-1: none is given), Seconds how long to go on (0: not given); what
// comes first ends it.
type AppendCommand struct {
	Log           string
	Shards        int
	Producers     int
	RecordBytes   int
	BatchRecords  int
	InFlight      int
	WarmupRecords int64
	Records       int64
	Seconds       float64
	Rate          float64 // records a second of all producers together; 0 is the closed loop
	Follow        bool
	Retry         bool // nodes die meanwhile: what was not acknowledged is sent again until it is, and is there once
}

// ReadCommand is a `read`.
type ReadCommand struct {
	Log          string
	Shards       int
	Consumers    int
	RecordBytes  int
	RequestBytes int // payloads that one request for records may bring
	Records      int64
	Verify       bool
}

// fields are those of all commands; nil is a field that was left out or null.
type fields struct {
	Command       *string           `json:"command"`
	Log           *string           `json:"log"`
	Shards        *int64            `json:"shards"`
	Nodes         *int64            `json:"nodes"`
	Settings      map[string]string `json:"settings"`
	Producers     *int64            `json:"producers"`
	Consumers     *int64            `json:"consumers"`
	RecordBytes   *int64            `json:"record_bytes"`
	BatchRecords  *int64            `json:"batch_records"`
	RequestBytes  *int64            `json:"request_bytes"`
	InFlight      *int64            `json:"in_flight"`
	WarmupRecords *int64            `json:"warmup_records"`
	Records       *int64            `json:"records"`
	Seconds       *float64          `json:"seconds"`
	Rate          *float64          `json:"rate"`
	Follow        *bool             `json:"follow"`
	Retry         *bool             `json:"retry"`
	Transactional *bool             `json:"transactional"`
	Verify        *bool             `json:"verify"`
}

const (
	stampBytes     = 16
	producersMost  = 1 << 16 // the stamp has four hexadecimal digits for the producer
	recordsMost    = 1 << 48 // and twelve for the record
	countMost      = math.MaxInt32
	secondsLongest = 86400.0
)

// parseCommand reads a line into one of: describeCommand, Log (`create`), deleteCommand, leaderCommand, AppendCommand, ReadCommand.
func parseCommand(line []byte) (any, error) {
	var given fields
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, fmt.Errorf("the command is not a JSON object of the contract: %w", err)
	}
	if given.Command == nil {
		return nil, fmt.Errorf("the command has no field \"command\"")
	}
	checked := &checker{command: *given.Command}
	command := checked.read(given)
	if checked.err != nil {
		return nil, checked.err
	}
	return command, nil
}

type describeCommand struct{}

type deleteCommand struct{ log string }

type leaderCommand struct{ log string }

// checker keeps the first error, so that a command's fields are read in one expression.
type checker struct {
	command string
	err     error
}

func (c *checker) read(given fields) any {
	switch c.command {
	case "describe":
		return describeCommand{}
	case "create":
		return Log{
			Name:     c.name("log", given.Log),
			Shards:   c.count("shards", given.Shards, 1, countMost),
			Nodes:    c.count("nodes", given.Nodes, 1, countMost),
			Settings: given.Settings,
		}
	case "delete":
		return deleteCommand{log: c.name("log", given.Log)}
	case "leader":
		return leaderCommand{log: c.name("log", given.Log)}
	case "append":
		return c.readAppend(given)
	case "read":
		return ReadCommand{
			Log:          c.name("log", given.Log),
			Shards:       c.count("shards", given.Shards, 1, countMost),
			Consumers:    c.count("consumers", given.Consumers, 1, countMost),
			RecordBytes:  c.count("record_bytes", given.RecordBytes, stampBytes, countMost),
			RequestBytes: c.count("request_bytes", given.RequestBytes, 1, countMost),
			Records:      int64(c.count("records", given.Records, 1, recordsMost)),
			Verify:       given.Verify != nil && *given.Verify,
		}
	}
	c.fail("there is no command %q: describe, create, delete, leader, append and read are known", c.command)
	return nil
}

func (c *checker) readAppend(given fields) AppendCommand {
	command := AppendCommand{
		Log:          c.name("log", given.Log),
		Shards:       c.count("shards", given.Shards, 1, countMost),
		Producers:    c.count("producers", given.Producers, 1, producersMost),
		RecordBytes:  c.count("record_bytes", given.RecordBytes, stampBytes, countMost),
		BatchRecords: c.count("batch_records", given.BatchRecords, 1, countMost),
		InFlight:     c.count("in_flight", given.InFlight, 1, countMost),
		Follow:       given.Follow != nil && *given.Follow,
		Retry:        given.Retry != nil && *given.Retry,
		Records:      -1,
	}
	if given.WarmupRecords != nil {
		command.WarmupRecords = int64(c.count("warmup_records", given.WarmupRecords, 0, recordsMost))
	}
	if given.Rate != nil {
		command.Rate = c.amount("rate", *given.Rate, 1e12)
	}
	if given.Records == nil && given.Seconds == nil {
		c.fail("append wants \"records\", \"seconds\" or both")
	}
	if given.Records != nil {
		command.Records = int64(c.count("records", given.Records, 1, recordsMost))
	}
	if given.Seconds != nil {
		command.Seconds = c.amount("seconds", *given.Seconds, secondsLongest)
	}
	if command.Retry && (command.BatchRecords != 1 || command.InFlight != 1 || command.Rate > 0) {
		c.fail("append with \"retry\" sends one record after the other (\"batch_records\" and \"in_flight\" 1, no \"rate\")")
	}
	if given.Transactional != nil && *given.Transactional {
		c.fail("append with \"transactional\": this driver makes no transactions")
	}
	if command.Follow && command.Rate == 0 {
		c.fail("append with \"follow\" wants a \"rate\": without one no record is due at a time")
	}
	return command
}

func (c *checker) name(field string, value *string) string {
	if value == nil || *value == "" {
		c.fail("%s wants the field %q", c.command, field)
		return ""
	}
	return *value
}

func (c *checker) count(field string, value *int64, least, most int64) int {
	if value == nil {
		c.fail("%s wants the field %q", c.command, field)
		return 0
	}
	if *value < least || *value > most {
		c.fail("%s: %q is %d; it must be from %d to %d", c.command, field, *value, least, most)
	}
	return int(*value)
}

func (c *checker) amount(field string, value, most float64) float64 {
	if value <= 0 || value > most {
		c.fail("%s: %q is %v; it must be above 0 and at most %v", c.command, field, value, most)
	}
	return value
}

func (c *checker) fail(format string, values ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, values...)
	}
}
