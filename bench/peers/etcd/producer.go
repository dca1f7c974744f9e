// Appending: a request is a transaction of puts, or one put. Several may wait at once; the client's calls wait for their
// answers, so each of those has a goroutine.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"ropewalk/contract"
)

const (
	requestRecordsMost = 10000
	requestBytesMost   = 4 << 20
)

// tryPatience is how long one attempt may take where nodes die: many times what an acknowledgement takes, for what is sent again is there
// once, and little beside an election.
const tryPatience = 100 * time.Millisecond

type producer struct {
	client *clientv3.Client
	number int
	runs   []string // beginning of this producer's keys in each shard
	next   int64
	retry  bool
}

// Requests: a batch is one transaction, as far as a request may be as large.
func (s *system) Requests(command contract.AppendCommand) contract.Requests {
	records := min(command.BatchRecords, requestRecordsMost, max(requestBytesMost/command.RecordBytes, 1))
	return contract.Requests{Records: records, Waiting: command.InFlight}
}

// OpenProducer writes the log's note again: its revision then belongs to this producer alone.
func (s *system) OpenProducer(ctx context.Context, command contract.AppendCommand, number int) (contract.Producer, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	revision, err := takeRevision(ctx, client, command)
	if err != nil {
		client.Close()
		return nil, err
	}
	p := &producer{client: client, number: number, retry: command.Retry}
	for shard := range command.Shards {
		p.runs = append(p.runs, runOf(shardOf(command.Log, shard), revision))
	}
	return p, nil
}

func takeRevision(ctx context.Context, client *clientv3.Client, command contract.AppendCommand) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	note := noteOf(command.Log)
	taken, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(note), ">", 0)).
		Then(clientv3.OpPut(note, fmt.Sprint(command.Shards))).
		Commit()
	if err != nil {
		return 0, fmt.Errorf("etcd does not take a key: %w", err)
	}
	if !taken.Succeeded {
		return 0, fmt.Errorf("there is no log %s: create it first", command.Log)
	}
	return taken.Header.Revision, nil
}

func (p *producer) Append(shard int, records [][]byte) error {
	puts := p.puts(shard, records)
	if p.retry {
		// The keys are the same each time: what is put again is there once.
		return contract.Again(tryPatience, func(ctx context.Context) error { return p.put(ctx, puts) })
	}
	return p.send(puts)
}

func (p *producer) Start(shard int, records [][]byte, done func(error)) {
	puts := p.puts(shard, records)
	go func() { done(p.send(puts)) }()
}

// puts gives the records their keys.
func (p *producer) puts(shard int, records [][]byte) []clientv3.Op {
	puts := make([]clientv3.Op, len(records))
	for i, record := range records {
		key := fmt.Sprintf("%s%012x-%04x", p.runs[shard], p.next, p.number)
		puts[i] = clientv3.OpPut(key, string(record))
		p.next++
	}
	return puts
}

func (p *producer) send(puts []clientv3.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	return p.put(ctx, puts)
}

func (p *producer) put(ctx context.Context, puts []clientv3.Op) error {
	if len(puts) == 1 {
		_, err := p.client.Do(ctx, puts[0])
		return err
	}
	answer, err := p.client.Txn(ctx).Then(puts...).Commit()
	if err == nil && !answer.Succeeded {
		return errors.New("etcd refused a transaction without conditions")
	}
	return err
}

func (p *producer) Close() {
	p.client.Close()
}
