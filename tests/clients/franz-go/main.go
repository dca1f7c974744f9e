// franz-go by the contract of tests/clients/README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	contract "ropewalk/clients/contract/go"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// groupProtocol is that of KIP-848, for which the client wants a balancer too that tells the coordinator's assignor, or the classic
// one with a balancer.
func groupProtocol(protocol string) []kgo.Opt {
	if protocol == "consumer" {
		return []kgo.Opt{kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()}
	}
	return []kgo.Opt{
		kgo.Balancers(balancers[protocol]),
		kgo.SessionTimeout(contract.SessionTimeout),
		kgo.HeartbeatInterval(contract.Heartbeat),
	}
}

// produce sends with the client's own defaults, which are idempotent.
func produce(addresses []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	return contract.EachCommand(func(words []string) error {
		var records []*kgo.Record
		for _, wanted := range contract.Records(words) {
			records = append(records, kgo.KeyStringRecord(wanted.Key, wanted.Value))
		}
		results := client.ProduceSync(context.Background(), records...)
		if err := results.FirstErr(); err != nil {
			return err
		}
		for _, result := range results {
			told := result.Record
			contract.Tell("acknowledged", told.Partition, told.Offset, string(told.Key), string(told.Value))
		}
		contract.Flush()
		return nil
	})
}

// uncommitted holds what was read and is still to be committed: the last record of each partition.
type uncommitted struct {
	sync.Mutex
	last map[int32]*kgo.Record
}

func (u *uncommitted) add(record *kgo.Record) {
	u.Lock()
	defer u.Unlock()
	u.last[record.Partition] = record
}

func (u *uncommitted) giveUp(_ context.Context, _ *kgo.Client, places map[string][]int32) {
	u.Lock()
	defer u.Unlock()
	for _, partitions := range places {
		for _, partition := range partitions {
			if u.last[partition] != nil {
				contract.Tell("uncommitted", partition)
				delete(u.last, partition)
			}
		}
	}
}

func (u *uncommitted) commit(client *kgo.Client) {
	u.Lock()
	defer u.Unlock()
	if len(u.last) == 0 {
		return
	}
	var records []*kgo.Record
	for _, record := range u.last {
		records = append(records, record)
	}
	limited, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	err := client.CommitRecords(limited, records...)
	refused := errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.UnknownMemberID)
	if err != nil && !refused {
		fmt.Fprintln(os.Stderr, "committing:", err, "- to be tried again")
		return
	}
	for partition, record := range u.last {
		if refused {
			contract.Tell("uncommitted", partition)
		} else {
			contract.Tell("committed", partition, record.Offset+1)
		}
	}
	clear(u.last)
}

func consume(leaving context.Context, addresses []string, topic, group, protocol string) error {
	waiting := &uncommitted{last: map[int32]*kgo.Record{}}
	client, err := kgo.NewClient(append(
		groupProtocol(protocol),
		kgo.SeedBrokers(addresses...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// A rebalance waits until what was read is committed.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(waiting.giveUp),
		kgo.OnPartitionsLost(waiting.giveUp),
	)...)
	if err != nil {
		return err
	}
	for leaving.Err() == nil {
		limited, done := context.WithTimeout(leaving, 200*time.Millisecond)
		fetches := client.PollRecords(limited, 200)
		done()
		fetches.EachError(func(_ string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, "reading", partition, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			contract.Tell("read", record.Partition, record.Offset, string(record.Key), string(record.Value))
			waiting.add(record)
		})
		// What is committed must have been told: a kill may come in between.
		contract.Flush()
		waiting.commit(client)
		contract.Flush()
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	return nil
}

var compressions = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func codecs(addresses []string, topic string) error {
	for _, codec := range contract.Codecs {
		if err := sendLetters(addresses, topic, codec); err != nil {
			return err
		}
		contract.Tell("sent", codec)
	}
	places := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ConsumePartitions(places))
	if err != nil {
		return err
	}
	defer client.Close()
	for left := len(contract.Codecs) * contract.LettersOfCodec; left > 0; {
		fetches := client.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			var headers []contract.Header
			for _, header := range record.Headers {
				headers = append(headers, contract.Header{Name: header.Key, Text: string(header.Value)})
			}
			contract.TellLetter(record.Offset, record.Key, record.Value, headers)
			left--
		})
	}
	return nil
}

func sendLetters(addresses []string, topic, codec string) error {
	compression := kgo.ProducerBatchCompression(compressions[codec])
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.DefaultProduceTopic(topic), compression)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for _, letter := range contract.Letters(codec) {
		record := &kgo.Record{Key: letter.Key, Value: letter.Value}
		for _, header := range letter.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: []byte(header.Text)})
		}
		records = append(records, record)
	}
	return client.ProduceSync(context.Background(), records...).FirstErr()
}

func admin(addresses []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, admin := context.Background(), kadm.NewClient(client)
	ok := []string{"ok"}
	return contract.Administer(map[string]func([]string) ([]string, error){
		"create": func(arguments []string) ([]string, error) {
			partitions, _ := strconv.Atoi(arguments[1])
			_, err := admin.CreateTopic(ctx, int32(partitions), -1, nil, arguments[0])
			return ok, err
		},
		"delete": func(arguments []string) ([]string, error) {
			_, err := admin.DeleteTopic(ctx, arguments[0])
			return ok, err
		},
		"topics": func([]string) ([]string, error) {
			topics, err := admin.ListTopics(ctx)
			return topics.Names(), err
		},
		"describe": func(arguments []string) ([]string, error) {
			topics, err := admin.ListTopics(ctx, arguments[0])
			if err == nil {
				err = topics.Error()
			}
			return []string{strconv.Itoa(len(topics[arguments[0]].Partitions))}, err
		},
		"groups": func([]string) ([]string, error) {
			groups, err := admin.ListGroups(ctx)
			return groups.Groups(), err
		},
		"offsets": func(arguments []string) ([]string, error) {
			offsets, err := admin.FetchOffsets(ctx, arguments[0])
			var answer []string
			for partition, told := range offsets[arguments[1]] {
				answer = append(answer, fmt.Sprintf("%d:%d", partition, told.At))
			}
			return answer, err
		},
		"config": func(arguments []string) ([]string, error) {
			found, err := admin.DescribeTopicConfigs(ctx, arguments[0])
			if err != nil {
				return nil, err
			}
			topic, err := found.On(arguments[0], nil)
			if err == nil {
				err = topic.Err
			}
			for _, config := range topic.Configs {
				if config.Key == arguments[1] {
					return []string{config.MaybeValue()}, err
				}
			}
			return nil, err
		},
		"set": func(arguments []string) ([]string, error) {
			change := kadm.AlterConfig{Op: kadm.SetConfig, Name: arguments[1], Value: &arguments[2]}
			changed, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, arguments[0])
			if err != nil {
				return nil, err
			}
			topic, err := changed.On(arguments[0], nil)
			if err == nil {
				err = topic.Err
			}
			return ok, err
		},
		"grow": func(arguments []string) ([]string, error) {
			count, _ := strconv.Atoi(arguments[1])
			grown, err := admin.UpdatePartitions(ctx, count, arguments[0])
			if err == nil {
				err = grown.Error()
			}
			return ok, err
		},
		"since": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			ms, _ := strconv.ParseInt(arguments[2], 10, 64)
			offsets, err := admin.ListOffsetsAfterMilli(ctx, ms, arguments[0])
			if err == nil {
				err = offsets.Error()
			}
			found, _ := offsets.Lookup(arguments[0], int32(partition))
			return []string{strconv.FormatInt(found.Offset, 10)}, err
		},
		"trim": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			offset, _ := strconv.ParseInt(arguments[2], 10, 64)
			var before kadm.Offsets
			before.AddOffset(arguments[0], int32(partition), offset, -1)
			trimmed, err := admin.DeleteRecords(ctx, before)
			if err == nil {
				err = trimmed.Error()
			}
			return ok, err
		},
		"state": func(arguments []string) ([]string, error) { return state(ctx, admin, arguments[0]) },
		"forget": func(arguments []string) ([]string, error) {
			gone, err := admin.DeleteGroup(ctx, arguments[0])
			if err == nil {
				err = gone.Err
			}
			return ok, err
		},
		"transaction": func(arguments []string) ([]string, error) { return ok, transactOnce(addresses, arguments[0]) },
	})
}

// state asks for a group of either protocol: to the one it is not of, it is dead.
func state(ctx context.Context, admin *kadm.Client, group string) ([]string, error) {
	classic, err := admin.DescribeGroups(ctx, group)
	if err == nil && classic.Error() == nil && classic[group].State != "Dead" {
		return []string{strings.ToLower(classic[group].State)}, nil
	}
	found, err := admin.DescribeConsumerGroups(ctx, group)
	if err == nil {
		err = found.Error()
	}
	return []string{strings.ToLower(found[group].State)}, err
}

func transactOnce(addresses []string, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.TransactionalID("once"))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	record := &kgo.Record{Topic: topic, Value: []byte("in a transaction")}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(context.Background(), kgo.TryCommit)
}

func main() {
	contract.Run(contract.Client{
		Produce: produce, Consume: consume, Codecs: codecs, Admin: admin,
		Follow: follow, Transact: transact, Transform: transform,
	})
}
