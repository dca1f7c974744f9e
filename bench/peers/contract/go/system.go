// What a driver of one system has to be: it makes and deletes logs, and opens producers and consumers. All the rest of the
// contract is done by this package.
package contract

import "context"

// System is a client of the system under test. Its methods may be called by several goroutines at once.
type System interface {
	// Describe names the client, its version, and every setting that was chosen.
	Describe() (client, version string, settings map[string]string)
	Create(ctx context.Context, log Log) error
	Delete(ctx context.Context, log string) error
	// Leader is the node that leads the log's first shard, from 1 on.
	Leader(ctx context.Context, log string) (int, error)
	// Requests says how this client packs and bounds what a producer sends.
	Requests(command AppendCommand) Requests
	OpenProducer(ctx context.Context, command AppendCommand, producer int) (Producer, error)
	OpenConsumer(ctx context.Context, log string, shards, consumer int) (Consumer, error)
}

// Requests is how a producer sends: so many records in one request, so many requests waiting for their acknowledgement.
type Requests struct {
	Records int
	Waiting int
}

// Producer appends to all shards of a log. It is used by one goroutine.
type Producer interface {
	// Append sends one request and waits for its acknowledgement. It is used where one request may wait.
	Append(shard int, records [][]byte) error
	// Start sends one request and calls done when it is acknowledged or has failed, exactly once, from any goroutine. The
	// records stay as they are until then. It is used where several requests may wait.
	Start(shard int, records [][]byte, done func(error))
	Close()
}

// Consumer reads shards. It is used by several goroutines, each with a shard of its own.
type Consumer interface {
	// Read gives the records of a shard from the first on, until take says false, the context ends, or there are no more.
	Read(ctx context.Context, shard ShardRead) error
	// Follow calls ready, then gives the records that are appended from then on, until the context ends.
	Follow(ctx context.Context, shard int, ready func(), take func(record []byte)) error
	Close()
}

// ShardRead is one shard to read.
type ShardRead struct {
	Shard        int
	RecordBytes  int
	RequestBytes int
	// Take is given each record, which it may use until it returns, and says whether it wants more.
	Take func(record []byte) bool
	// Latency counts requests, where the client shows them.
	Latency *Latencies
}

// RequestRecords is how many records one request asks for, where a client asks in records.
func (s ShardRead) RequestRecords() int {
	return max(s.RequestBytes/s.RecordBytes, 1)
}
