// kafka-go by the contract of tests/clients/README.md. Its producer has no sequence numbers: a retry may write twice.
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

	"github.com/segmentio/kafka-go"

	contract "ropewalk/clients/contract/go"
)

var balancers = map[string]kafka.GroupBalancer{
	"range":      kafka.RangeGroupBalancer{},
	"roundrobin": kafka.RoundRobinGroupBalancer{},
}

func produce(addresses []string, topic string) error {
	var acknowledged sync.WaitGroup
	writer := &kafka.Writer{
		Addr:         kafka.TCP(addresses...),
		Topic:        topic,
		Balancer:     kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
		MaxAttempts:  1000,
		Completion: func(messages []kafka.Message, err error) {
			if err != nil {
				return
			}
			for _, told := range messages {
				contract.Tell("acknowledged", told.Partition, told.Offset, string(told.Key), string(told.Value))
				acknowledged.Done()
			}
		},
	}
	defer writer.Close()
	return contract.EachCommand(func(words []string) error {
		var messages []kafka.Message
		for _, wanted := range contract.Records(words) {
			messages = append(messages, kafka.Message{Key: []byte(wanted.Key), Value: []byte(wanted.Value)})
		}
		acknowledged.Add(len(messages))
		if err := write(writer, messages); err != nil {
			return err
		}
		acknowledged.Wait()
		contract.Flush()
		return nil
	})
}

// write tries those again that failed for want of the node, as the client leaves to its users.
func write(writer *kafka.Writer, messages []kafka.Message) error {
	for {
		err := writer.WriteMessages(context.Background(), messages...)
		var failed kafka.WriteErrors
		if !errors.As(err, &failed) {
			return err
		}
		fmt.Fprintln(os.Stderr, "writing:", err, "- to be tried again")
		var left []kafka.Message
		for i, err := range failed {
			if err != nil {
				left = append(left, messages[i])
			}
		}
		messages = left
	}
}

func consume(leaving context.Context, addresses []string, topic, group, protocol string) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           addresses,
		GroupID:           group,
		Topic:             topic,
		GroupBalancers:    []kafka.GroupBalancer{balancers[protocol]},
		StartOffset:       kafka.FirstOffset,
		SessionTimeout:    contract.SessionTimeout,
		RebalanceTimeout:  contract.SessionTimeout,
		HeartbeatInterval: contract.Heartbeat,
		MaxWait:           200 * time.Millisecond,
		ErrorLogger:       kafka.LoggerFunc(func(what string, with ...any) { fmt.Fprintf(os.Stderr, what+"\n", with...) }),
	})
	for leaving.Err() == nil {
		messages := readSome(leaving, reader)
		for _, message := range messages {
			contract.Tell("read", message.Partition, message.Offset, string(message.Key), string(message.Value))
		}
		// What is committed must have been told: a kill may come in between.
		contract.Flush()
		commit(reader, messages)
	}
	return reader.Close()
}

// readSome waits a while for a message and takes along what else is there.
func readSome(leaving context.Context, reader *kafka.Reader) []kafka.Message {
	var messages []kafka.Message
	patience := 200 * time.Millisecond
	for len(messages) < 200 {
		limited, done := context.WithTimeout(leaving, patience)
		message, err := reader.FetchMessage(limited)
		gaveUp := limited.Err() != nil
		done()
		if err != nil {
			// The client goes on by itself.
			if !gaveUp {
				fmt.Fprintln(os.Stderr, "reading:", err)
			}
			break
		}
		messages = append(messages, message)
		patience = time.Millisecond
	}
	return messages
}

// commit is not told of: the client sends it in whatever generation it is in by then, so a late one is taken for partitions that are
// somebody else's already, and says nothing about who read them.
func commit(reader *kafka.Reader, messages []kafka.Message) {
	if len(messages) == 0 {
		return
	}
	for {
		limited, done := context.WithTimeout(context.Background(), 10*time.Second)
		err := reader.CommitMessages(limited, messages...)
		done()
		if err == nil {
			return
		}
		fmt.Fprintln(os.Stderr, "committing:", err, "- to be tried again")
	}
}

// The client has no name for a writer that does not compress.
var compressions = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func codecs(addresses []string, topic string) error {
	for _, codec := range contract.Codecs {
		if err := sendLetters(addresses, topic, codec); err != nil {
			return err
		}
		contract.Tell("sent", codec)
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: addresses, Topic: topic, Partition: 0, MaxWait: 200 * time.Millisecond,
	})
	for range len(contract.Codecs) * contract.LettersOfCodec {
		message, err := reader.ReadMessage(context.Background())
		if err != nil {
			return err
		}
		var headers []contract.Header
		for _, header := range message.Headers {
			headers = append(headers, contract.Header{Name: header.Key, Text: string(header.Value)})
		}
		// The client gives nil for an empty value as well.
		contract.TellLetter(message.Offset, message.Key, message.Value, headers)
	}
	return reader.Close()
}

func sendLetters(addresses []string, topic, codec string) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(addresses...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond,
		Compression: compressions[codec],
	}
	defer writer.Close()
	var messages []kafka.Message
	for _, letter := range contract.Letters(codec) {
		message := kafka.Message{Key: letter.Key, Value: letter.Value}
		for _, header := range letter.Headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: []byte(header.Text)})
		}
		messages = append(messages, message)
	}
	return writer.WriteMessages(context.Background(), messages...)
}

func admin(addresses []string) error {
	ctx, client := context.Background(), &kafka.Client{Addr: kafka.TCP(addresses...), Timeout: 30 * time.Second}
	ok := []string{"ok"}
	return contract.Administer(map[string]func([]string) ([]string, error){
		"create": func(arguments []string) ([]string, error) {
			partitions, _ := strconv.Atoi(arguments[1])
			wanted := kafka.TopicConfig{Topic: arguments[0], NumPartitions: partitions, ReplicationFactor: -1}
			answer, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
			if err == nil {
				err = answer.Errors[arguments[0]]
			}
			return ok, err
		},
		"delete": func(arguments []string) ([]string, error) {
			answer, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: arguments})
			if err == nil {
				err = answer.Errors[arguments[0]]
			}
			return ok, err
		},
		"topics": func([]string) ([]string, error) {
			answer, err := client.Metadata(ctx, &kafka.MetadataRequest{})
			if err != nil {
				return nil, err
			}
			var names []string
			for _, topic := range answer.Topics {
				names = append(names, topic.Name)
			}
			return names, nil
		},
		"describe": func(arguments []string) ([]string, error) {
			answer, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: arguments})
			if err != nil {
				return nil, err
			}
			return []string{strconv.Itoa(len(answer.Topics[0].Partitions))}, answer.Topics[0].Error
		},
		"groups": func([]string) ([]string, error) {
			answer, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
			if err != nil {
				return nil, err
			}
			var names []string
			for _, group := range answer.Groups {
				names = append(names, group.GroupID)
			}
			return names, answer.Error
		},
		"offsets": func(arguments []string) ([]string, error) {
			topics := map[string][]int{arguments[1]: {0, 1, 2, 3, 4, 5}}
			answer, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: arguments[0], Topics: topics})
			if err != nil {
				return nil, err
			}
			var committed []string
			for _, told := range answer.Topics[arguments[1]] {
				committed = append(committed, fmt.Sprintf("%d:%d", told.Partition, told.CommittedOffset))
			}
			return committed, answer.Error
		},
		"config": func(arguments []string) ([]string, error) {
			wanted := kafka.DescribeConfigRequestResource{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: arguments[0], ConfigNames: arguments[1:],
			}
			request := &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{wanted}}
			answer, err := client.DescribeConfigs(ctx, request)
			if err != nil {
				return nil, err
			}
			if answer.Resources[0].Error != nil {
				return nil, answer.Resources[0].Error
			}
			return []string{answer.Resources[0].ConfigEntries[0].ConfigValue}, nil
		},
		"set": func(arguments []string) ([]string, error) {
			change := kafka.IncrementalAlterConfigsRequestConfig{
				Name: arguments[1], Value: arguments[2], ConfigOperation: kafka.ConfigOperationSet,
			}
			topic := kafka.IncrementalAlterConfigsRequestResource{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: arguments[0],
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{change},
			}
			request := &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{topic}}
			answer, err := client.IncrementalAlterConfigs(ctx, request)
			if err == nil {
				err = answer.Resources[0].Error
			}
			return ok, err
		},
		"grow": func(arguments []string) ([]string, error) {
			count, _ := strconv.Atoi(arguments[1])
			topic := kafka.TopicPartitionsConfig{Name: arguments[0], Count: int32(count)}
			request := &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{topic}}
			answer, err := client.CreatePartitions(ctx, request)
			if err == nil {
				err = answer.Errors[arguments[0]]
			}
			return ok, err
		},
		"since": func(arguments []string) ([]string, error) {
			partition, _ := strconv.Atoi(arguments[1])
			ms, _ := strconv.ParseInt(arguments[2], 10, 64)
			wanted := kafka.TimeOffsetOf(partition, time.UnixMilli(ms))
			request := &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{arguments[0]: {wanted}}}
			answer, err := client.ListOffsets(ctx, request)
			if err != nil {
				return nil, err
			}
			found := answer.Topics[arguments[0]][0]
			var offsets []string
			for offset := range found.Offsets {
				offsets = append(offsets, strconv.FormatInt(offset, 10))
			}
			return offsets, found.Error
		},
		// The client deletes no records.
		"trim": func([]string) ([]string, error) { return []string{"lacks"}, nil },
		"state": func(arguments []string) ([]string, error) {
			answer, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: arguments})
			if err != nil {
				return nil, err
			}
			return []string{strings.ToLower(answer.Groups[0].GroupState)}, answer.Groups[0].Error
		},
		"forget": func(arguments []string) ([]string, error) {
			answer, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: arguments})
			if err == nil {
				err = answer.Errors[arguments[0]]
			}
			return ok, err
		},
		// The client's producer has no transactions; it can only ask for what begins one.
		"transaction": func([]string) ([]string, error) {
			answer, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: "once", TransactionTimeoutMs: 60000})
			if err != nil {
				return nil, err
			}
			return ok, answer.Error
		},
	})
}

func main() {
	contract.Run(contract.Client{Produce: produce, Consume: consume, Codecs: codecs, Admin: admin})
}
