// Logs as JetStream streams: shard 3 of log c-17 is the stream c-17-3 with the one subject c-17.3. Both are made from the
// log's name, so that any later driver finds them.
package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ropewalk/contract"
)

const (
	answerPatience = 30 * time.Second
	askPatience    = 3 * time.Second
	leaderPatience = 250 * time.Millisecond
	streamsAtOnce  = 16
)

// Subjects give dots, stars and more a meaning of their own.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

type system struct {
	addresses []string
}

func streamOf(log string, shard int) string  { return log + "-" + strconv.Itoa(shard) }
func subjectOf(log string, shard int) string { return log + "." + strconv.Itoa(shard) }

func (s *system) Describe() (client, version string, settings map[string]string) {
	return "nats.go", nats.Version, map[string]string{
		"batch_records=1, in_flight=1": "Publish",
		"otherwise":                    "PublishMsgAsync, batch_records * in_flight records waiting",
		"batch publishing":             "not used: atomic and fast batches are an extension's (orbit.go jetstreamext), not nats.go's",
		"connections":                  "one for each producer and consumer, spread over the servers in turn",
		"Replicas":                     "as many as there are servers",
		"RetryAttempts":                "0; with retry a message is published again, with the same Nats-Msg-Id, after " + tryPatience.String() + " or an error",
		"PublishAsyncTimeout":          answerPatience.String(),
		"reconnect":                    "no; with retry default",
		"read":                         "ordered consumer, Consume",
		"PullMaxMessages":              "twice as many as have request_bytes: the client asks again when half of them have come",
		"PullMaxMessages, follow":      strconv.Itoa(followRecordsMost),
	}
}

// connect opens a connection of its own, to the servers in turn: to the next one if one is not there. Without reconnecting, a server that
// is lost later is an error at once.
func (s *system) connect(number int, reconnect bool, options ...jetstream.JetStreamOpt) (*nats.Conn, jetstream.JetStream, error) {
	first := number % len(s.addresses)
	servers := strings.Join(slices.Concat(s.addresses[first:], s.addresses[:first]), ",")
	settings := []nats.Option{nats.DontRandomize(), nats.Timeout(answerPatience)}
	if !reconnect {
		settings = append(settings, nats.NoReconnect())
	}
	connection, err := nats.Connect(servers, settings...)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot connect to any of %s: %w", servers, err)
	}
	stream, err := jetstream.New(connection, append(options, jetstream.WithDefaultTimeout(answerPatience))...)
	if err != nil {
		connection.Close()
		return nil, nil, err
	}
	return connection, stream, nil
}

func (s *system) Create(ctx context.Context, log contract.Log) error {
	if !plainName.MatchString(log.Name) {
		return fmt.Errorf("%q is no name for a stream: only letters, digits, _ and - are", log.Name)
	}
	for name := range log.Settings {
		return fmt.Errorf("there is no setting %q for a log; streams are made with defaults", name)
	}
	connection, streams, err := s.connect(0, false)
	if err != nil {
		return err
	}
	defer connection.Close()
	return contract.InParallel(log.Shards, streamsAtOnce, func(shard int) error {
		_, err := streams.CreateStream(ctx, jetstream.StreamConfig{
			Name:     streamOf(log.Name, shard),
			Subjects: []string{subjectOf(log.Name, shard)},
			Storage:  jetstream.FileStorage,
			Replicas: log.Nodes,
		})
		return err
	})
}

func (s *system) Leader(ctx context.Context, log string) (int, error) {
	connection, streams, err := s.connect(0, false)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	stream, err := streams.Stream(ctx, streamOf(log, 0))
	if err != nil {
		return 0, err
	}
	cluster := stream.CachedInfo().Cluster
	for node := range s.addresses {
		if cluster != nil && cluster.Leader == nodeName(node) {
			return node + 1, nil
		}
	}
	return 0, fmt.Errorf("no server is said to lead the stream of %s", log)
}

func (s *system) Delete(ctx context.Context, log string) error {
	connection, streams, err := s.connect(0, false)
	if err != nil {
		return err
	}
	defer connection.Close()
	var names []string
	listed := streams.StreamNames(ctx, jetstream.WithStreamListSubject(log+".*"))
	for name := range listed.Name() {
		names = append(names, name)
	}
	if err := listed.Err(); err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("there is no such log")
	}
	return contract.InParallel(len(names), streamsAtOnce, func(i int) error {
		return streams.DeleteStream(ctx, names[i])
	})
}

// waitForLeaders returns when every stream has a leader: after a restart a node is healthy before, and whoever asks for a
// stream without one gets no answer at all.
func (s *system) waitForLeaders(ctx context.Context) error {
	connection, streams, err := s.connect(0, false)
	if err != nil {
		return err
	}
	defer connection.Close()
	var names []string
	listed := streams.StreamNames(ctx)
	for name := range listed.Name() {
		names = append(names, name)
	}
	if err := listed.Err(); err != nil {
		return err
	}
	return contract.InParallel(len(names), streamsAtOnce, func(i int) error {
		for {
			once, cancel := context.WithTimeout(ctx, leaderPatience)
			_, err := streams.Stream(once, names[i])
			cancel()
			if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
	})
}
