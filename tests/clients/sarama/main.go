// sarama by the contract of tests/clients/README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	contract "ropewalk/clients/contract/go"
)

var strategies = map[string]func() sarama.BalanceStrategy{
	"range":  sarama.NewBalanceStrategyRange,
	"sticky": sarama.NewBalanceStrategySticky,
}

func settings() *sarama.Config {
	settings := sarama.NewConfig()
	settings.Version = sarama.MaxVersion
	settings.Metadata.Retry.Max = 100
	return settings
}

func produce(addresses []string, topic string) error {
	settings := settings()
	settings.Producer.Idempotent = true
	settings.Net.MaxOpenRequests = 1
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Return.Successes = true
	settings.Producer.Retry.Max = 1000
	producer, err := sarama.NewSyncProducer(addresses, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	return contract.EachCommand(func(words []string) error {
		var messages []*sarama.ProducerMessage
		records := contract.Records(words)
		for _, wanted := range records {
			messages = append(messages, &sarama.ProducerMessage{
				Topic: topic, Key: sarama.StringEncoder(wanted.Key), Value: sarama.StringEncoder(wanted.Value),
			})
		}
		if err := producer.SendMessages(messages); err != nil {
			return fmt.Errorf("%w: %v", err, err.(sarama.ProducerErrors)[0])
		}
		for i, told := range messages {
			contract.Tell("acknowledged", told.Partition, told.Offset, records[i].Key, records[i].Value)
		}
		contract.Flush()
		return nil
	})
}

// member reads each of its partitions in a goroutine of its own. sarama does not tell whether a commit was made (it tries again
// by itself), so neither does this.
type member struct{}

func (member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		contract.Tell("read", message.Partition, message.Offset, string(message.Key), string(message.Value))
		// What is committed must have been told: a kill may come in between.
		contract.Flush()
		session.MarkMessage(message, "")
		if len(claim.Messages()) == 0 {
			session.Commit()
		}
	}
	return nil
}

func consume(leaving context.Context, addresses []string, topic, group, protocol string) error {
	settings := settings()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Offsets.AutoCommit.Enable = false
	settings.Consumer.Group.Session.Timeout = contract.SessionTimeout
	settings.Consumer.Group.Heartbeat.Interval = contract.Heartbeat
	settings.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[protocol]()}
	settings.Consumer.Return.Errors = true
	client, err := sarama.NewClient(addresses, settings)
	if err != nil {
		return err
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return err
	}
	go func() {
		for err := range consumer.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	for leaving.Err() == nil {
		// Returns when the group rebalances.
		if err := consumer.Consume(leaving, []string{topic}, member{}); err != nil {
			fmt.Fprintln(os.Stderr, "joining:", err)
			time.Sleep(200 * time.Millisecond)
			// The client asks a coordinator that is away again and again, unless it is told to look for another one.
			if err := client.RefreshCoordinator(group); err != nil {
				fmt.Fprintln(os.Stderr, "looking for the coordinator:", err)
			}
		}
	}
	return consumer.Close()
}

var compressions = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func codecs(addresses []string, topic string) error {
	for _, codec := range contract.Codecs {
		if err := sendLetters(addresses, topic, codec); err != nil {
			return err
		}
		contract.Tell("sent", codec)
	}
	consumer, err := sarama.NewConsumer(addresses, settings())
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.Close()
	for range len(contract.Codecs) * contract.LettersOfCodec {
		message := <-partition.Messages()
		var headers []contract.Header
		for _, header := range message.Headers {
			headers = append(headers, contract.Header{Name: string(header.Key), Text: string(header.Value)})
		}
		contract.TellLetter(message.Offset, message.Key, message.Value, headers)
	}
	return nil
}

func sendLetters(addresses []string, topic, codec string) error {
	settings := settings()
	settings.Producer.Compression = compressions[codec]
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(addresses, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for _, letter := range contract.Letters(codec) {
		message := &sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder(letter.Key)}
		if letter.Value != nil {
			message.Value = sarama.ByteEncoder(letter.Value)
		}
		for _, header := range letter.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: []byte(header.Text)})
		}
		messages = append(messages, message)
	}
	return producer.SendMessages(messages)
}

func admin(addresses []string) error {
	admin, err := sarama.NewClusterAdmin(addresses, settings())
	if err != nil {
		return err
	}
	defer admin.Close()
	ok := []string{"ok"}
	return contract.Administer(map[string]func([]string) ([]string, error){
		"create": func(arguments []string) ([]string, error) {
			partitions, _ := strconv.Atoi(arguments[1])
			return ok, admin.CreateTopic(arguments[0], &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: -1}, false)
		},
		"delete": func(arguments []string) ([]string, error) { return ok, admin.DeleteTopic(arguments[0]) },
		"topics": func([]string) ([]string, error) {
			topics, err := admin.ListTopics()
			return keys(topics), err
		},
		"describe": func(arguments []string) ([]string, error) {
			topics, err := admin.DescribeTopics(arguments)
			if err != nil {
				return nil, err
			}
			if topics[0].Err != sarama.ErrNoError {
				return nil, topics[0].Err
			}
			return []string{strconv.Itoa(len(topics[0].Partitions))}, nil
		},
		"groups": func([]string) ([]string, error) {
			groups, err := admin.ListConsumerGroups()
			return keys(groups), err
		},
		"offsets": func(arguments []string) ([]string, error) {
			offsets, err := admin.ListConsumerGroupOffsets(arguments[0], nil)
			if err != nil {
				return nil, err
			}
			var answer []string
			for partition, told := range offsets.Blocks[arguments[1]] {
				answer = append(answer, fmt.Sprintf("%d:%d", partition, told.Offset))
			}
			return answer, nil
		},
		"config": func(arguments []string) ([]string, error) {
			wanted := sarama.ConfigResource{Type: sarama.TopicResource, Name: arguments[0], ConfigNames: arguments[1:]}
			found, err := admin.DescribeConfig(wanted)
			if err != nil {
				return nil, err
			}
			return []string{found[0].Value}, nil
		},
		"set": func(arguments []string) ([]string, error) {
			change := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &arguments[2]}
			changes := map[string]sarama.IncrementalAlterConfigsEntry{arguments[1]: change}
			return ok, admin.IncrementalAlterConfig(sarama.TopicResource, arguments[0], changes, false)
		},
		"grow": func(arguments []string) ([]string, error) {
			count, _ := strconv.Atoi(arguments[1])
			return ok, admin.CreatePartitions(arguments[0], int32(count), nil, false)
		},
		"since": func(arguments []string) ([]string, error) {
			client, err := sarama.NewClient(addresses, settings())
			if err != nil {
				return nil, err
			}
			defer client.Close()
			partition, _ := strconv.Atoi(arguments[1])
			ms, _ := strconv.ParseInt(arguments[2], 10, 64)
			offset, err := client.GetOffset(arguments[0], int32(partition), ms)
			return []string{strconv.FormatInt(offset, 10)}, err
		},
		"trim": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			offset, _ := strconv.ParseInt(arguments[2], 10, 64)
			return ok, admin.DeleteRecords(arguments[0], map[int32]int64{int32(partition): offset})
		},
		"state": func(arguments []string) ([]string, error) {
			found, err := admin.DescribeConsumerGroups(arguments)
			if err != nil {
				return nil, err
			}
			return []string{strings.ToLower(found[0].State)}, nil
		},
		"forget":      func(arguments []string) ([]string, error) { return ok, admin.DeleteConsumerGroup(arguments[0]) },
		"transaction": func(arguments []string) ([]string, error) { return ok, transactOnce(addresses, arguments[0]) },
	})
}

func transactOnce(addresses []string, topic string) error {
	settings := settings()
	settings.Producer.Idempotent = true
	settings.Net.MaxOpenRequests = 1
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Producer.Return.Successes = true
	settings.Producer.Transaction.ID = "once"
	settings.Producer.Transaction.Retry.Max = 3
	producer, err := sarama.NewSyncProducer(addresses, settings)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("in a transaction")}
	if _, _, err := producer.SendMessage(message); err != nil {
		return err
	}
	return producer.CommitTxn()
}

func keys[V any](found map[string]V) []string {
	var names []string
	for name := range found {
		names = append(names, name)
	}
	return names
}

func main() {
	contract.Run(contract.Client{
		Produce: produce, Consume: consume, Codecs: codecs, Admin: admin,
		Follow: follow, Transact: transact, Transform: transform,
	})
}
