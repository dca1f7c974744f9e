// Reading: an ordered consumer for each shard, which pulls ahead and needs no acknowledgements.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ropewalk/contract"
)

// followRecordsMost is how many records a consumer at the tail asks for ahead.
const followRecordsMost = 4096

type consumer struct {
	connection *nats.Conn
	stream     jetstream.JetStream
	log        string
}

func (s *system) OpenConsumer(_ context.Context, log string, _, number int) (contract.Consumer, error) {
	connection, stream, err := s.connect(number, false)
	if err != nil {
		return nil, err
	}
	return &consumer{connection: connection, stream: stream, log: log}, nil
}

// Read gives the messages that the stream has now.
func (c *consumer) Read(ctx context.Context, read contract.ShardRead) error {
	state, err := c.state(ctx, read.Shard)
	if err != nil || state.Msgs == 0 {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left := state.Msgs
	// The client asks again for what is missing when half of what it asked for has come: so each request is for this half.
	ahead := 2 * read.RequestRecords()
	err = c.consume(ctx, read.Shard, state.FirstSeq, ahead, func() {}, func(record []byte) {
		if left == 0 {
			return
		}
		left--
		if !read.Take(record) {
			left = 0
		}
		if left == 0 {
			cancel()
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *consumer) Follow(ctx context.Context, shard int, ready func(), take func(record []byte)) error {
	state, err := c.state(ctx, shard)
	if err != nil {
		return err
	}
	return c.consume(ctx, shard, state.LastSeq+1, followRecordsMost, ready, take)
}

func (c *consumer) state(ctx context.Context, shard int) (jetstream.StreamState, error) {
	stream, err := patiently(ctx, func(once context.Context) (jetstream.Stream, error) {
		return c.stream.Stream(once, streamOf(c.log, shard))
	})
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return stream.CachedInfo().State, nil
}

// patiently asks again when nobody has answered: what a node was asked before it died, no other will answer.
func patiently[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(answerPatience)
	for {
		once, cancel := context.WithTimeout(ctx, askPatience)
		answer, err := ask(once)
		cancel()
		isSilence := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
		if !isSilence || ctx.Err() != nil || time.Now().After(end) {
			return answer, err
		}
	}
}

// consume gives messages from a sequence number on until the context ends or the client gives up. What the client repairs by
// itself is no error: it makes an ordered consumer anew, after the last message, when one falls silent or when a node does
// not know of it yet.
func (c *consumer) consume(ctx context.Context, shard int, from uint64, ahead int, ready func(), take func([]byte)) error {
	ordered, err := patiently(ctx, func(once context.Context) (jetstream.Consumer, error) {
		return c.stream.OrderedConsumer(once, streamOf(c.log, shard), jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:   from,
		})
	})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	consuming, err := ordered.Consume(
		func(message jetstream.Msg) { take(message.Data()) },
		jetstream.PullMaxMessages(ahead),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrNoHeartbeat) || errors.Is(err, nats.ErrNoResponders) {
				return
			}
			select {
			case failed <- err:
			default:
			}
		}))
	if err != nil {
		return err
	}
	ready()
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
	}
	consuming.Stop()
	<-consuming.Closed()
	return err
}

func (c *consumer) Close() {
	c.connection.Close()
}
