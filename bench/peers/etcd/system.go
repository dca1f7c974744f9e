// Logs as keys. `log/NAME` tells that a log is there. `record/NAME/SHARD/RUN-NUMBER-PRODUCER` is a record: RUN is a revision
// that only one opened producer has, so that a log can be appended to again, and NUMBER ascends. All parts have a fixed
// length: the order of the keys is the order of each producer's records.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"ropewalk/contract"
)

const (
	openPatience   = 10 * time.Second
	answerPatience = 30 * time.Second
	deletePatience = 10 * time.Minute
)

type system struct {
	endpoints []string
}

func newSystem(addresses string) *system {
	return &system{endpoints: strings.Split(addresses, ",")}
}

func noteOf(log string) string                  { return "log/" + log }
func recordsOf(log string) string               { return "record/" + log + "/" }
func shardOf(log string, shard int) string      { return fmt.Sprintf("%s%06d/", recordsOf(log), shard) }
func runOf(shard string, revision int64) string { return fmt.Sprintf("%s%016x-", shard, revision) }

func (s *system) Describe() (client, clientVersion string, settings map[string]string) {
	return "etcd client v3", version.Version, map[string]string{
		"request":         fmt.Sprintf("a Txn of batch_records puts, at most %d records or %d MiB; at a rate, of what is due; one record: Put", requestRecordsMost, requestBytesMost>>20),
		"connections":     "one for each producer and consumer, to all servers",
		"MaxUnaryRetries": "1 (none); with retry a Put is sent again until it is answered, after " + tryPatience.String() + " or an error",
		"read":            "linearizable ranges of as many keys as have request_bytes of values, one after the other",
		"follow":          "Watch",
	}
}

func (s *system) connect() (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:          s.endpoints,
		DialTimeout:        answerPatience,
		Logger:             zap.NewNop(),
		MaxCallSendMsgSize: 16 << 20,
		MaxCallRecvMsgSize: math.MaxInt32,
		MaxUnaryRetries:    1,
	})
}

// with opens a connection for one piece of work.
func (s *system) with(ctx context.Context, patience time.Duration, work func(context.Context, *clientv3.Client) error) error {
	client, err := s.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return work(ctx, client)
}

func (s *system) Create(ctx context.Context, log contract.Log) error {
	if strings.Contains(log.Name, "/") {
		return fmt.Errorf("%q is no name for a prefix of keys: it has a slash", log.Name)
	}
	for name := range log.Settings {
		return fmt.Errorf("there is no setting %q for a log: keys have none", name)
	}
	if log.Nodes != len(s.endpoints) {
		return fmt.Errorf("etcd replicates every key to all its %d nodes, not to %d", len(s.endpoints), log.Nodes)
	}
	return s.with(ctx, answerPatience, func(ctx context.Context, client *clientv3.Client) error {
		note := noteOf(log.Name)
		made, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(note), "=", 0)).
			Then(clientv3.OpPut(note, fmt.Sprint(log.Shards))).
			Commit()
		if err == nil && !made.Succeeded {
			return errors.New("it is there already")
		}
		return err
	})
}

// Leader is that of all keys.
func (s *system) Leader(ctx context.Context, _ string) (leader int, err error) {
	err = s.with(ctx, answerPatience, func(ctx context.Context, client *clientv3.Client) error {
		for place, endpoint := range s.endpoints {
			status, err := client.Status(ctx, endpoint)
			if err != nil {
				return err
			}
			if status.Leader == status.Header.MemberId {
				leader = place + 1
				return nil
			}
		}
		return errors.New("none of the members says that it leads")
	})
	return leader, err
}

// Delete removes a log's keys, then compacts and defragments: only that gives the disk back.
func (s *system) Delete(ctx context.Context, log string) error {
	return s.with(ctx, deletePatience, func(ctx context.Context, client *clientv3.Client) error {
		note, err := client.Get(ctx, noteOf(log))
		if err != nil {
			return err
		}
		if note.Count == 0 {
			return errors.New("there is no such log")
		}
		if _, err := client.Delete(ctx, recordsOf(log), clientv3.WithPrefix()); err != nil {
			return err
		}
		// A compaction keeps what its own revision deleted: the note goes one revision after the records.
		removed, err := client.Delete(ctx, noteOf(log))
		if err != nil {
			return err
		}
		_, err = client.Compact(ctx, removed.Header.Revision, clientv3.WithCompactPhysical())
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("cannot compact: %w", err)
		}
		for _, endpoint := range s.endpoints {
			if _, err := client.Defragment(ctx, endpoint); err != nil {
				return fmt.Errorf("cannot defragment %s: %w", endpoint, err)
			}
		}
		return nil
	})
}
