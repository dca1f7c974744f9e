// Consumers at the tail, one for each shard, while producers append: how long after it was due was each measured record
// delivered.
package contract

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// deliveryPatience is how long the last records may take after the last acknowledgement.
const deliveryPatience = 60 * time.Second

type followers struct {
	command   AppendCommand
	cancel    context.CancelFunc
	running   sync.WaitGroup
	consumers []Consumer
	latencies []Latencies // one for each shard
	plan      atomic.Pointer[schedule]
	delivered atomic.Int64
	failed    chan error
}

// follow returns when every consumer is at its shard's tail.
func follow(ctx context.Context, system System, command AppendCommand) (*followers, error) {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{
		command: command, cancel: cancel, failed: make(chan error, 1),
		consumers: make([]Consumer, command.Shards), latencies: make([]Latencies, command.Shards),
	}
	err := InParallel(command.Shards, 64, func(shard int) error { return f.startOne(ctx, system, shard) })
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *followers) startOne(ctx context.Context, system System, shard int) error {
	consumer, err := system.OpenConsumer(ctx, f.command.Log, f.command.Shards, shard)
	if err != nil {
		return fmt.Errorf("consumer of shard %d: %w", shard, err)
	}
	f.consumers[shard] = consumer
	ready := make(chan struct{})
	f.running.Go(func() {
		err := consumer.Follow(ctx, shard, func() { close(ready) }, func(record []byte) { f.take(shard, record) })
		if ctx.Err() == nil {
			f.fail(fmt.Errorf("the consumer at the tail of shard %d ended: %w", shard, orEnded(err)))
		}
	})
	select {
	case <-ready:
		return nil
	case err := <-f.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail keeps the first error for whoever waits.
func (f *followers) fail(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

func orEnded(err error) error {
	if err == nil {
		return errors.New("its stream of records ended")
	}
	return err
}

// begin says when measured records are due; those before are warm-up and are not counted.
func (f *followers) begin(plan schedule) {
	f.plan.Store(&plan)
}

func (f *followers) take(shard int, record []byte) {
	now := time.Now()
	producer, number, err := ReadStamp(record)
	if err != nil {
		f.fail(fmt.Errorf("shard %d: %w", shard, err))
		return
	}
	measured := number - share(f.command.WarmupRecords, producer, f.command.Producers)
	plan := f.plan.Load()
	if measured < 0 || plan == nil {
		return
	}
	f.latencies[shard].Add(now.Sub(plan.due(producer, measured)))
	f.delivered.Add(1)
}

// wait returns the delivery times once so many measured records have been delivered.
func (f *followers) wait(records int64) (*Latencies, error) {
	deadline := time.Now().Add(deliveryPatience)
	for f.delivered.Load() < records {
		select {
		case err := <-f.failed:
			return nil, err
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("only %d of %d records were delivered within %v of the last acknowledgement",
				f.delivered.Load(), records, deliveryPatience)
		}
	}
	f.close()
	all := &Latencies{}
	for shard := range f.latencies {
		all.Merge(&f.latencies[shard])
	}
	return all, nil
}

// close ends the consumers; a second time it does nothing.
func (f *followers) close() {
	f.cancel()
	f.running.Wait()
	for shard, consumer := range f.consumers {
		if consumer != nil {
			consumer.Close()
			f.consumers[shard] = nil
		}
	}
}
