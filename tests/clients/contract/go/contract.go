// Package contract holds the lines of tests/clients/README.md, for the clients in Go.
package contract

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	keys           = 18
	SessionTimeout = 3 * time.Second
	Heartbeat      = 500 * time.Millisecond
)

// Record is what a line `FIRST COUNT` asks to be sent.
type Record struct{ Key, Value string }

// Records gives the records that a line `FIRST COUNT` asks for.
func Records(words []string) []Record {
	first, _ := strconv.Atoi(words[0])
	count, _ := strconv.Atoi(words[1])
	records := make([]Record, 0, count)
	for number := first; number < first+count; number++ {
		key := fmt.Sprintf("k%d", number%keys)
		records = append(records, Record{key, fmt.Sprintf("%s:%d", key, number)})
	}
	return records
}

// EachCommand hands on the lines that come in, as words, until one fails.
func EachCommand(obey func(words []string) error) error {
	for lines.Scan() {
		if err := obey(strings.Fields(lines.Text())); err != nil {
			return err
		}
	}
	return lines.Err()
}

// Codecs are the codecs in the order in which `codecs` goes through them.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// LettersOfCodec is how many letters are sent with each codec.
const LettersOfCodec = 20

// Letter is a record that is sent to see whether all of it comes back. A tombstone has no value.
type Letter struct {
	Key, Value []byte
	Headers    []Header
}

// Header stands beside a record.
type Header struct{ Name, Text string }

// Letters gives the letters of a codec.
func Letters(codec string) []Letter {
	letters := make([]Letter, 0, LettersOfCodec)
	for number := range LettersOfCodec {
		letter := Letter{
			Key: fmt.Appendf(nil, "%s-%d", codec, number),
			// So long that it pays to compress a letter alone: a client may leave what would not get smaller.
			Headers: []Header{{"codec", codec}, {"weave", strings.Repeat("warp-weft-", 20)}},
		}
		if number%5 != 4 {
			letter.Value = fmt.Appendf(nil, "%s:%d", codec, number)
		}
		letters = append(letters, letter)
	}
	return letters
}

// TellLetter tells of a letter that was read.
func TellLetter(offset int64, key, value []byte, headers []Header) {
	words := []any{"read", offset, string(key), "-"}
	if value != nil {
		words[3] = string(value)
	}
	for _, header := range headers {
		words = append(words, header.Name+"="+header.Text)
	}
	Tell(words...)
}

var (
	printing sync.Mutex
	out      = bufio.NewWriter(os.Stdout)
)

// Tell prints one line. It may be called by several goroutines.
func Tell(words ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Fprintln(out, words...)
}

// Flush sends off what was told.
func Flush() {
	printing.Lock()
	defer printing.Unlock()
	out.Flush()
}

// Administer answers lines with what the function of that name gives for the rest of the line.
func Administer(deeds map[string]func(arguments []string) ([]string, error)) error {
	return EachCommand(func(words []string) error {
		answer, err := deeds[words[0]](words[1:])
		if err != nil {
			answer = []string{"error", strings.ReplaceAll(err.Error(), "\n", " ")}
		}
		Tell(strings.Join(answer, " "))
		Flush()
		return nil
	})
}

// InATransaction is how many records `transform` puts into a transaction, at most.
const InATransaction = 20

var lines = bufio.NewScanner(os.Stdin)

// Step is what is done with a transaction of `transform` when the line says so.
type Step func() error

// EndTransaction takes a transaction of `count` records through its last steps, as the lines say; whether it was committed, which `commit` tells.
func EndTransaction(count int, add Step, commit func() (bool, error), abort Step) (bool, error) {
	Tell("sent", count)
	Flush()
	defer Flush()
	for lines.Scan() {
		switch lines.Text() {
		case "offsets":
			if err := add(); err != nil {
				return false, err
			}
			Tell("added")
			Flush()
		case "commit":
			committed, err := commit()
			if err == nil && committed {
				Tell("committed")
			} else if err == nil {
				Tell("aborted")
			}
			return committed, err
		case "abort":
			err := abort()
			if err == nil {
				Tell("aborted")
			}
			return false, err
		}
	}
	return false, errors.New("the input has ended in the middle of a transaction")
}

// Client is what a client's program does for each of the commands. Those that it has no transactions for are nil. The context of `consume` is
// done when the member is to leave. Clients are given the addresses of all nodes that they are told of.
type Client struct {
	Produce   func(addresses []string, topic string) error
	Consume   func(leaving context.Context, addresses []string, topic, group, protocol string) error
	Codecs    func(addresses []string, topic string) error
	Admin     func(addresses []string) error
	Follow    func(addresses []string, topic string, committed bool) error
	Transact  func(addresses []string, id string, timeout time.Duration) error
	Transform func(addresses []string, id string, timeout time.Duration, group, source, target string) error
}

// Run does what the command line asks for and ends the process.
func Run(client Client) {
	addresses, arguments := strings.Split(os.Args[1], ","), os.Args[3:]
	var err error
	switch os.Args[2] {
	case "produce":
		err = client.Produce(addresses, arguments[0])
	case "consume":
		leaving, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = client.Consume(leaving, addresses, arguments[0], arguments[1], arguments[2])
	case "codecs":
		err = client.Codecs(addresses, arguments[0])
	case "admin":
		err = client.Admin(addresses)
	case "follow":
		err = client.Follow(addresses, arguments[0], arguments[1] == "committed")
	case "transact":
		err = client.Transact(addresses, arguments[0], milliseconds(arguments[1]))
	case "transform":
		err = client.Transform(addresses, arguments[0], milliseconds(arguments[1]), arguments[2], arguments[3], arguments[4])
	}
	Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func milliseconds(word string) time.Duration {
	count, _ := strconv.Atoi(word)
	return time.Duration(count) * time.Millisecond
}
