// Appending: one message is one record. One that may wait alone is published and waited for; several are published
// asynchronously, and the client's acknowledgement and error handlers tell how each ended.
package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ropewalk/contract"
)

// tryPatience is how long one attempt may take where nodes die: many times what an acknowledgement takes, for what is sent again is there
// once, and little beside an election.
const tryPatience = 100 * time.Millisecond

type producer struct {
	connection *nats.Conn
	name       string // of its messages, where they are sent again: a stream takes each name once
	sent       int64
	stream     jetstream.JetStream
	subjects   []string
	lock       sync.Mutex
	waiting    map[*nats.Msg]func(error) // published asynchronously, not yet acknowledged
}

// Requests: the client has no batches, so as many single records wait as the batches would have held.
func (s *system) Requests(command contract.AppendCommand) contract.Requests {
	return contract.Requests{Records: 1, Waiting: command.BatchRecords * command.InFlight}
}

func (s *system) OpenProducer(_ context.Context, command contract.AppendCommand, number int) (contract.Producer, error) {
	p := &producer{waiting: map[*nats.Msg]func(error){}}
	for shard := range command.Shards {
		p.subjects = append(p.subjects, subjectOf(command.Log, shard))
	}
	if command.Retry {
		p.name = nats.NewInbox()
	}
	var err error
	p.connection, p.stream, err = s.connect(number, command.Retry,
		// One more than may wait: at its own limit the client would stall and then refuse.
		jetstream.WithPublishAsyncMaxPending(command.BatchRecords*command.InFlight+1),
		jetstream.WithPublishAsyncTimeout(answerPatience),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, message *nats.Msg, _ *jetstream.PubAck) {
			p.finish(message, nil)
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, message *nats.Msg, err error) {
			p.finish(message, err)
		}))
	if err != nil {
		return nil, err
	}
	p.connection.SetClosedHandler(func(*nats.Conn) { p.failAll() })
	return p, nil
}

func (p *producer) Append(shard int, records [][]byte) error {
	if p.name != "" {
		p.sent++
		name := jetstream.WithMsgID(fmt.Sprintf("%s-%d", p.name, p.sent))
		return contract.Again(tryPatience, func(ctx context.Context) error {
			_, err := p.stream.Publish(ctx, p.subjects[shard], records[0], name, jetstream.WithRetryAttempts(0))
			return err
		})
	}
	_, err := p.stream.Publish(context.Background(), p.subjects[shard], records[0], jetstream.WithRetryAttempts(0))
	return err
}

func (p *producer) Start(shard int, records [][]byte, done func(error)) {
	message := &nats.Msg{Subject: p.subjects[shard], Data: records[0]}
	p.lock.Lock()
	p.waiting[message] = done
	p.lock.Unlock()
	if _, err := p.stream.PublishMsgAsync(message, jetstream.WithRetryAttempts(0)); err != nil {
		p.finish(message, err)
	}
}

// finish tells how a message ended, once: the client may report a lost connection after a time-out.
func (p *producer) finish(message *nats.Msg, err error) {
	p.lock.Lock()
	done, waited := p.waiting[message]
	delete(p.waiting, message)
	p.lock.Unlock()
	if waited {
		done(err)
	}
}

// failAll ends what still waits when the server is gone; without it each message would wait for its time-out.
func (p *producer) failAll() {
	p.lock.Lock()
	messages := slices.Collect(maps.Keys(p.waiting))
	p.lock.Unlock()
	for _, message := range messages {
		p.finish(message, nats.ErrConnectionClosed)
	}
}

func (p *producer) Close() {
	p.connection.Close()
}
