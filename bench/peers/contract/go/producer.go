// One producer: it packs records into requests, keeps so many of them waiting as it may, and counts what was acknowledged.
// All its counts but `progress` belong to its own goroutine: an acknowledgement only stamps its request with the time and
// hands it back.
package contract

import (
	"math"
	"sync/atomic"
	"time"
)

// request is a place for one request's records, used again once it is acknowledged.
type request struct {
	records [][]byte
	used    int       // how many of them this request has
	first   int64     // number of the first one
	from    time.Time // when it was handed over
	plan    *schedule // of the open loop: latency counts from when each record was due
	planned int64     // the first record's number in the plan
	done    time.Time
	err     error
}

type producer struct {
	run      *appendRun
	number   int
	client   Producer
	requests Requests
	alarm    *alarm // of the open loop

	free    chan *request // acknowledged, not yet counted
	made    int           // requests that exist
	waiting int           // requests that were sent and not yet counted

	next        int64 // number of the next record
	batches     int64 // batches of earlier phases
	measuring   bool
	measured    int64
	errors      int64
	firstFailed int64
	lastDone    time.Time
	latency     Latencies
	progress    atomic.Int64
}

func newProducer(run *appendRun, number int, client Producer, requests Requests) *producer {
	return &producer{
		run: run, number: number, client: client, requests: requests,
		free: make(chan *request, requests.Waiting), firstFailed: math.MaxInt64,
	}
}

// phase is the warm-up or the measured part. Its end is a number of records (negative is none), or a time, if there is one; what
// comes first.
type phase struct {
	records  int64
	deadline time.Time
	plan     *schedule // nil is the closed loop
}

// over tells whether nothing is sent any more. Of the open loop it is the number of records that says so.
func (p phase) over(now time.Time) bool {
	return p.plan == nil && !p.deadline.IsZero() && !now.Before(p.deadline)
}

// send works through a phase and returns when everything it sent was acknowledged, or after a failure. In the open loop a request
// has what is due when there is room for it: who falls behind makes larger ones, and no record waits for a request to fill.
func (p *producer) send(phase phase) {
	var sent int64
	batchRecords := int64(p.run.command.BatchRecords)
	packs := packing{batch: batchRecords, request: int64(p.requests.Records)}
	for !p.run.stopped.Load() && sent != phase.records {
		if phase.plan != nil {
			if err := p.alarm.waitUntil(phase.plan.due(p.number, sent)); err != nil {
				p.run.fail(err)
				break
			}
		}
		place := p.takePlace()
		now := time.Now()
		if phase.over(now) {
			p.free <- place
			break
		}
		last := packs.last(sent, phase.records)
		if phase.plan != nil {
			last = phase.plan.lastDue(p.number, sent, last, now)
		}
		place.plan, place.planned = phase.plan, sent
		p.sendRequest(place, int(last+1-sent), p.shard(p.batches+sent/batchRecords))
		sent = last + 1
	}
	p.batches += (sent + batchRecords - 1) / batchRecords
	p.collect()
}

func (p *producer) shard(batch int64) int {
	command := p.run.command
	return int((int64(p.number) + batch*int64(command.Producers)) % int64(command.Shards))
}

func (p *producer) sendRequest(place *request, count, shard int) {
	place.used, place.first, place.err = count, p.next, nil
	for i := range count {
		if i == len(place.records) {
			place.records = append(place.records, make([]byte, p.run.command.RecordBytes))
		}
		p.run.payloads.Fill(place.records[i], p.number, p.next+int64(i))
	}
	p.next += int64(count)
	p.waiting++
	place.from = time.Now()
	if p.requests.Waiting == 1 {
		p.finish(place, p.client.Append(shard, place.records[:count]))
		return
	}
	p.client.Start(shard, place.records[:count], func(err error) { p.finish(place, err) })
}

// finish takes an acknowledgement, on whatever goroutine it came. The channel has room for every request there is.
func (p *producer) finish(place *request, err error) {
	place.done, place.err = time.Now(), err
	if err == nil {
		p.progress.Add(int64(place.used))
	}
	p.free <- place
}

// takePlace waits until another request may be sent.
func (p *producer) takePlace() *request {
	if p.made < p.requests.Waiting {
		select {
		case place := <-p.free:
			p.count(place)
			return place
		default:
			p.made++
			return &request{}
		}
	}
	place := <-p.free
	p.count(place)
	return place
}

// count takes an acknowledged request into the sums, once.
func (p *producer) count(place *request) {
	if place.used == 0 {
		return
	}
	p.waiting--
	switch {
	case place.err != nil:
		p.errors += int64(place.used)
		p.firstFailed = min(p.firstFailed, place.first)
		p.run.fail(place.err)
	case p.measuring:
		p.measured += int64(place.used)
		p.addLatency(place)
	}
	if place.done.After(p.lastDone) {
		p.lastDone = place.done
	}
	place.used = 0
}

func (p *producer) addLatency(place *request) {
	if place.plan == nil {
		p.latency.Add(place.done.Sub(place.from))
		return
	}
	for i := range place.used {
		p.latency.Add(place.done.Sub(place.plan.due(p.number, place.planned+int64(i))))
	}
}

// collect waits for everything that was sent. The places stay free for the next phase.
func (p *producer) collect() {
	var places []*request
	for p.waiting > 0 {
		place := <-p.free
		p.count(place)
		places = append(places, place)
	}
	for _, place := range places {
		p.free <- place
	}
}

// appended is how many of the producer's first records were acknowledged without a gap.
func (p *producer) appended() int64 {
	return min(p.next, p.firstFailed)
}
