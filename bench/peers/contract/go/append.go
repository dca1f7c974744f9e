// The `append` command: producers are opened and warmed up, start together, and are added up when the last acknowledgement
// is there. Consumers at the tail (`follow`) are ready before the first record is sent.
package contract

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

type appendRun struct {
	command   AppendCommand
	payloads  *Payloads
	producers []*producer
	stopped   atomic.Bool // after the first failure: the run does not count
	lock      sync.Mutex
	err       error
}

// fail stops the run and keeps its first error.
func (r *appendRun) fail(err error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.stopped.Store(true)
}

func appendRecords(ctx context.Context, system System, command AppendCommand, answer *events) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := &appendRun{command: command, payloads: NewPayloads(command.RecordBytes)}

	var tail *followers
	if command.Follow {
		var err error
		if tail, err = follow(ctx, system, command); err != nil {
			return err
		}
		defer tail.close()
	}
	defer run.close()
	if err := run.open(ctx, system); err != nil {
		return err
	}
	run.each(func(p *producer) {
		p.send(phase{records: share(command.WarmupRecords, p.number, command.Producers)})
	})
	if run.err != nil {
		return fmt.Errorf("the warm-up failed: %w", run.err)
	}
	return run.measure(tail, answer)
}

// open makes the producers, each with its connection.
func (r *appendRun) open(ctx context.Context, system System) error {
	requests := system.Requests(r.command)
	r.producers = make([]*producer, r.command.Producers)
	return InParallel(r.command.Producers, 64, func(number int) error {
		client, err := system.OpenProducer(ctx, r.command, number)
		if err != nil {
			return fmt.Errorf("producer %d: %w", number, err)
		}
		opened := newProducer(r, number, client, requests)
		r.producers[number] = opened
		if r.command.Rate > 0 {
			opened.alarm, err = newAlarm()
		}
		return err
	})
}

func (r *appendRun) close() {
	for _, p := range r.producers {
		if p == nil {
			continue
		}
		p.client.Close()
		if p.alarm != nil {
			p.alarm.close()
		}
	}
}

func (r *appendRun) each(work func(*producer)) {
	var all sync.WaitGroup
	for _, p := range r.producers {
		all.Go(func() { work(p) })
	}
	all.Wait()
}

func (r *appendRun) measure(tail *followers, answer *events) error {
	for _, p := range r.producers {
		p.measuring = true
		p.progress.Store(0)
	}
	answer.plain("started")
	start := time.Now()
	if tail != nil {
		tail.begin(schedule{start: start, rate: r.command.Rate, producers: r.command.Producers})
	}
	stopProgress := r.reportProgress(answer)
	r.each(func(p *producer) { p.send(r.measuredPhase(p.number, start)) })
	stopProgress()

	done := r.sum(start)
	if tail != nil && r.err == nil {
		delivery, err := tail.wait(done.Records)
		if err != nil {
			return err
		}
		done.Delivery = delivery
	}
	answer.write(done)
	return nil
}

// measuredPhase is one producer's part.
func (r *appendRun) measuredPhase(number int, start time.Time) phase {
	if r.command.Rate > 0 {
		return phase{
			records: r.command.measuredShares()[number],
			plan:    &schedule{start: start, rate: r.command.Rate, producers: r.command.Producers},
		}
	}
	measured := phase{records: -1}
	if r.command.Records >= 0 {
		measured.records = share(r.command.Records, number, r.command.Producers)
	}
	if r.command.Seconds > 0 {
		measured.deadline = start.Add(time.Duration(r.command.Seconds * float64(time.Second)))
	}
	return measured
}

func (r *appendRun) reportProgress(answer *events) (stop func()) {
	ended := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				var records int64
				for _, p := range r.producers {
					records += p.progress.Load()
				}
				answer.write(progressEvent{Event: "progress", Records: records})
			}
		}
	})
	return func() {
		close(ended)
		reporter.Wait()
	}
}

func (r *appendRun) sum(start time.Time) appendedEvent {
	done := appendedEvent{Event: "done", Latency: &Latencies{}, FirstError: firstError(r.err)}
	last := start
	for _, p := range r.producers {
		done.Records += p.measured
		done.Errors += p.errors
		done.Appended = append(done.Appended, p.appended())
		done.Latency.Merge(&p.latency)
		if p.lastDone.After(last) {
			last = p.lastDone
		}
	}
	if r.err != nil {
		done.Errors = max(done.Errors, 1)
	}
	done.Bytes = done.Records * int64(r.command.RecordBytes)
	done.Seconds = last.Sub(start).Seconds()
	return done
}

// InParallel does `count` pieces of work, a few at a time, and returns the first error.
func InParallel(count, atOnce int, work func(number int) error) error {
	var (
		all    sync.WaitGroup
		next   atomic.Int64
		failed atomic.Pointer[error]
	)
	for range min(count, atOnce) {
		all.Go(func() {
			for {
				number := int(next.Add(1)) - 1
				if number >= count || failed.Load() != nil {
					return
				}
				if err := work(number); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
