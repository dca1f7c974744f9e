// The `read` command: consumers read their shards from the first record until all together had as many records as asked
// for. With `verify` every payload's sum and order are taken.
package contract

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"time"
)

// shardsAtOnce is how many shards one consumer reads at the same time.
const shardsAtOnce = 16

type readRun struct {
	command ReadCommand
	cancel  context.CancelFunc
	claimed atomic.Int64 // records given by the clients, also such as come after the last that was wanted
	last    time.Time    // when the last wanted one came; set by whoever took it
	lock    sync.Mutex
	done    readEvent
	crc     uint64
	late    int64
}

func readRecords(ctx context.Context, system System, command ReadCommand, answer *events) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := &readRun{command: command, cancel: cancel}
	run.done = readEvent{Event: "done", Latency: &Latencies{}}

	consumers := make([]Consumer, command.Consumers)
	defer func() {
		for _, consumer := range consumers {
			if consumer != nil {
				consumer.Close()
			}
		}
	}()
	err := InParallel(command.Consumers, 64, func(number int) (err error) {
		consumers[number], err = system.OpenConsumer(ctx, command.Log, command.Shards, number)
		return err
	})
	if err != nil {
		return err
	}
	answer.plain("started")
	start := time.Now()
	if err := run.readAll(ctx, consumers); err != nil {
		return err
	}
	if got := run.claimed.Load(); got < command.Records {
		return fmt.Errorf("the log %s ended after %d records; %d were to be read", command.Log, got, command.Records)
	}
	run.done.Seconds = run.last.Sub(start).Seconds()
	if command.Verify {
		run.done.Crc32Sum, run.done.OutOfOrder = &run.crc, &run.late
	}
	answer.write(run.done)
	return nil
}

func (r *readRun) readAll(ctx context.Context, consumers []Consumer) error {
	return InParallel(len(consumers), len(consumers), func(number int) error {
		shards := r.shardsOf(number)
		return InParallel(len(shards), shardsAtOnce, func(i int) error {
			return r.readShard(ctx, consumers[number], shards[i])
		})
	})
}

// shardsOf lists the shards of a consumer. More consumers than shards read the same shards again.
func (r *readRun) shardsOf(consumer int) []int {
	if consumer >= r.command.Shards {
		return []int{consumer % r.command.Shards}
	}
	var shards []int
	for shard := consumer; shard < r.command.Shards; shard += r.command.Consumers {
		shards = append(shards, shard)
	}
	return shards
}

func (r *readRun) readShard(ctx context.Context, consumer Consumer, shard int) error {
	reading := &shardReading{run: r, next: map[int]int64{}}
	err := consumer.Read(ctx, ShardRead{
		Shard: shard, RecordBytes: r.command.RecordBytes, RequestBytes: r.command.RequestBytes,
		Take: reading.take, Latency: &reading.latency,
	})
	if err != nil && ctx.Err() == nil {
		r.cancel()
		return fmt.Errorf("shard %d: %w", shard, err)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	reading.addTo(r)
	return nil
}

// shardReading is what one goroutine found in one shard.
type shardReading struct {
	run     *readRun
	records int64
	bytes   int64
	crc     uint64
	late    int64
	errors  int64
	err     error
	next    map[int]int64 // the least number that may come next, of each producer
	latency Latencies
}

func (s *shardReading) take(record []byte) bool {
	number := s.run.claimed.Add(1)
	wanted := s.run.command.Records
	if number > wanted {
		return false
	}
	s.records++
	s.bytes += int64(len(record))
	if len(record) != s.run.command.RecordBytes {
		s.fail(fmt.Errorf("a record has %d bytes instead of %d", len(record), s.run.command.RecordBytes))
	}
	if s.run.command.Verify {
		s.verify(record)
	}
	if number == wanted {
		s.run.last = time.Now()
		s.run.cancel()
	}
	return number < wanted
}

func (s *shardReading) verify(record []byte) {
	s.crc += uint64(crc32.ChecksumIEEE(record))
	producer, number, err := ReadStamp(record)
	if err != nil {
		s.fail(err)
		return
	}
	if number < s.next[producer] {
		s.late++
	}
	s.next[producer] = number + 1
}

func (s *shardReading) fail(err error) {
	s.errors++
	if s.err == nil {
		s.err = err
	}
}

func (s *shardReading) addTo(r *readRun) {
	r.done.Records += s.records
	r.done.Bytes += s.bytes
	r.done.Errors += s.errors
	r.done.Latency.Merge(&s.latency)
	r.crc += s.crc
	r.late += s.late
	if r.done.FirstError == nil {
		r.done.FirstError = firstError(s.err)
	}
}
