// Transactions with franz-go, by the contract of tests/clients/README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	contract "ropewalk/clients/contract/go"
)

func follow(addresses []string, topic string, committed bool) error {
	isolation := kgo.ReadUncommitted()
	if committed {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addresses...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(isolation),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(context.Background())
		fetches.EachError(func(_ string, partition int32, err error) { fmt.Fprintln(os.Stderr, "reading", partition, err) })
		fetches.EachRecord(func(record *kgo.Record) {
			contract.Tell("read", record.Partition, record.Offset, string(record.Value))
		})
		contract.Flush()
	}
}

func transactional(addresses []string, id string, timeout time.Duration) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(addresses...), kgo.TransactionalID(id), kgo.TransactionTimeout(timeout),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
}

func transact(addresses []string, id string, timeout time.Duration) error {
	client, err := kgo.NewClient(transactional(addresses, id, timeout)...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, admin, ok := context.Background(), kadm.NewClient(client), []string{"ok"}
	return contract.Administer(map[string]func([]string) ([]string, error){
		"init": func([]string) ([]string, error) {
			_, _, err := client.ProducerID(ctx)
			return ok, err
		},
		"begin": func([]string) ([]string, error) { return ok, client.BeginTransaction() },
		"send": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			var records []*kgo.Record
			for _, value := range arguments[2:] {
				records = append(records, &kgo.Record{Topic: arguments[0], Partition: int32(partition), Value: []byte(value)})
			}
			err := client.ProduceSync(ctx, records...).FirstErr()
			return []string{strconv.FormatInt(records[0].Offset, 10)}, err
		},
		// The client adds offsets for members only: as `transform` does.
		"offsets": func([]string) ([]string, error) { return []string{"lacks"}, nil },
		"commit":  func([]string) ([]string, error) { return ok, client.EndTransaction(ctx, kgo.TryCommit) },
		"abort":   func([]string) ([]string, error) { return ok, client.EndTransaction(ctx, kgo.TryAbort) },
		"tail": func(arguments []string) ([]string, error) {
			list := admin.ListEndOffsets
			if arguments[2] == "committed" {
				list = admin.ListCommittedOffsets
			}
			offsets, err := list(ctx, arguments[0])
			if err == nil {
				err = offsets.Error()
			}
			partition, _ := strconv.Atoi(arguments[1])
			found, _ := offsets.Lookup(arguments[0], int32(partition))
			return []string{strconv.FormatInt(found.Offset, 10)}, err
		},
	})
}

func transform(addresses []string, id string, timeout time.Duration, group, source, target string) error {
	session, err := kgo.NewGroupTransactSession(append(
		transactional(addresses, id, timeout),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(contract.SessionTimeout),
		kgo.HeartbeatInterval(contract.Heartbeat),
	)...)
	if err != nil {
		return err
	}
	defer session.Close()
	ctx := context.Background()
	end := func(how kgo.TransactionEndTry) (bool, error) { return session.End(ctx, how) }
	for {
		fetches := session.PollRecords(ctx, contract.InATransaction)
		fetches.EachError(func(_ string, partition int32, err error) { fmt.Fprintln(os.Stderr, "reading", partition, err) })
		handed := fetches.Records()
		if len(handed) == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var copies []*kgo.Record
		for _, record := range handed {
			copies = append(copies, &kgo.Record{Topic: target, Partition: record.Partition, Key: record.Key, Value: record.Value})
		}
		if err := session.ProduceSync(ctx, copies...).FirstErr(); err != nil {
			return errors.Join(err, abort(end))
		}
		_, err := contract.EndTransaction(len(handed),
			func() error { return nil },
			func() (bool, error) { return end(kgo.TryCommit) },
			func() error { return abort(end) })
		if err != nil {
			return err
		}
	}
}

func abort(end func(kgo.TransactionEndTry) (bool, error)) error {
	_, err := end(kgo.TryAbort)
	return err
}
