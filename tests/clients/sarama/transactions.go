// Transactions with sarama, by the contract of tests/clients/README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	contract "ropewalk/clients/contract/go"
)

func follow(addresses []string, topic string, committed bool) error {
	settings := settings()
	if committed {
		settings.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(addresses, settings)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partitions, err := consumer.Partitions(topic)
	if err != nil {
		return err
	}
	var readers sync.WaitGroup
	for _, partition := range partitions {
		reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			return err
		}
		readers.Go(func() {
			for message := range reader.Messages() {
				contract.Tell("read", message.Partition, message.Offset, string(message.Value))
				contract.Flush()
			}
		})
	}
	readers.Wait()
	return nil
}

func transactional(addresses []string, id string, timeout time.Duration) (sarama.SyncProducer, error) {
	settings := settings()
	settings.Producer.Idempotent = true
	settings.Net.MaxOpenRequests = 1
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Return.Successes = true
	settings.Producer.Partitioner = sarama.NewManualPartitioner
	settings.Producer.Transaction.ID = id
	settings.Producer.Transaction.Timeout = timeout
	return sarama.NewSyncProducer(addresses, settings)
}

func transact(addresses []string, id string, timeout time.Duration) error {
	client, err := sarama.NewClient(addresses, settings())
	if err != nil {
		return err
	}
	defer client.Close()
	ok := []string{"ok"}
	var producer sarama.SyncProducer
	return contract.Administer(map[string]func([]string) ([]string, error){
		// The client begins with the producer's id.
		"init": func([]string) ([]string, error) {
			var err error
			producer, err = transactional(addresses, id, timeout)
			return ok, err
		},
		"begin": func([]string) ([]string, error) { return ok, producer.BeginTxn() },
		"send": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			var messages []*sarama.ProducerMessage
			for _, value := range arguments[2:] {
				message := &sarama.ProducerMessage{Topic: arguments[0], Partition: int32(partition), Value: sarama.StringEncoder(value)}
				messages = append(messages, message)
			}
			err := send(producer, messages)
			return []string{strconv.FormatInt(messages[0].Offset, 10)}, err
		},
		"offsets": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[2])
			next, _ := strconv.ParseInt(arguments[3], 10, 64)
			offset := &sarama.PartitionOffsetMetadata{Partition: int32(partition), Offset: next}
			offsets := map[string][]*sarama.PartitionOffsetMetadata{arguments[1]: {offset}}
			return ok, producer.AddOffsetsToTxn(offsets, arguments[0])
		},
		"commit": func([]string) ([]string, error) { return ok, producer.CommitTxn() },
		"abort":  func([]string) ([]string, error) { return ok, producer.AbortTxn() },
		"tail": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			offset, err := tail(client, arguments[0], int32(partition), arguments[2] == "committed")
			return []string{strconv.FormatInt(offset, 10)}, err
		},
	})
}

// send tells the first of the errors, where the client tells how many there are.
func send(producer sarama.SyncProducer, messages []*sarama.ProducerMessage) error {
	err := producer.SendMessages(messages)
	if failed, several := err.(sarama.ProducerErrors); several {
		return fmt.Errorf("%w: %v", err, failed[0].Err)
	}
	return err
}

func tail(client sarama.Client, topic string, partition int32, committed bool) (int64, error) {
	leader, err := client.Leader(topic, partition)
	if err != nil {
		return 0, err
	}
	request := &sarama.OffsetRequest{Version: 2}
	if committed {
		request.IsolationLevel = sarama.ReadCommitted
	}
	request.AddBlock(topic, partition, sarama.OffsetNewest, 1)
	answer, err := leader.GetAvailableOffsets(request)
	if err != nil {
		return 0, err
	}
	found := answer.GetBlock(topic, partition)
	if found.Err != sarama.ErrNoError {
		return 0, found.Err
	}
	return found.Offset, nil
}

// copier reads each of its partitions in a goroutine of its own, and makes one transaction at a time.
type copier struct {
	sync.Mutex
	producer      sarama.SyncProducer
	group, target string
}

func (*copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		handed := []*sarama.ConsumerMessage{message}
		for len(handed) < contract.InATransaction && len(claim.Messages()) > 0 {
			handed = append(handed, <-claim.Messages())
		}
		if err := c.copy(session, handed); err != nil {
			// The client would only log it and go on with the next generation.
			fmt.Fprintln(os.Stderr, "copying:", err)
			os.Exit(1)
		}
	}
	return nil
}

func (c *copier) copy(session sarama.ConsumerGroupSession, handed []*sarama.ConsumerMessage) error {
	c.Lock()
	defer c.Unlock()
	member := sarama.NewConsumerGroupMetadataFromSession(session, c.group, nil)
	for committed := false; !committed && session.Context().Err() == nil; {
		if err := c.producer.BeginTxn(); err != nil {
			return err
		}
		var copies []*sarama.ProducerMessage
		for _, message := range handed {
			copies = append(copies, &sarama.ProducerMessage{
				Topic: c.target, Partition: message.Partition, Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value),
			})
		}
		if err := send(c.producer, copies); err != nil {
			return err
		}
		var err error
		committed, err = contract.EndTransaction(len(handed),
			func() error {
				return c.producer.AddMessageToTxnWithGroupMetadata(handed[len(handed)-1], member, nil)
			},
			func() (bool, error) { return true, c.producer.CommitTxn() },
			c.producer.AbortTxn)
		if err != nil {
			return err
		}
	}
	return nil
}

func transform(addresses []string, id string, timeout time.Duration, group, source, target string) error {
	producer, err := transactional(addresses, id, timeout)
	if err != nil {
		return err
	}
	settings := settings()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.IsolationLevel = sarama.ReadCommitted
	settings.Consumer.Group.Session.Timeout = contract.SessionTimeout
	settings.Consumer.Group.Heartbeat.Interval = contract.Heartbeat
	client, err := sarama.NewClient(addresses, settings)
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return err
	}
	handler := &copier{producer: producer, group: group, target: target}
	for {
		if err := consumer.Consume(context.Background(), []string{source}, handler); err != nil {
			fmt.Fprintln(os.Stderr, "joining:", err)
			time.Sleep(200 * time.Millisecond)
			if err := client.RefreshCoordinator(group); err != nil {
				fmt.Fprintln(os.Stderr, "looking for the coordinator:", err)
			}
		}
	}
}
