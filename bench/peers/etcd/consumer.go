// Reading: a shard's keys page by page, each page from after the last key of the one before. At the tail: a watch.
package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"ropewalk/contract"
)

type consumer struct {
	client *clientv3.Client
	log    string
}

func (s *system) OpenConsumer(_ context.Context, log string, _, _ int) (contract.Consumer, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	return &consumer{client: client, log: log}, nil
}

func (c *consumer) Read(ctx context.Context, read contract.ShardRead) error {
	from := shardOf(c.log, read.Shard)
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		page, err := c.page(ctx, from, end, read.RequestRecords(), read.Latency)
		if err != nil {
			return err
		}
		for _, pair := range page.Kvs {
			if !read.Take(pair.Value) {
				return nil
			}
			from = string(pair.Key) + "\x00"
		}
		if !page.More {
			return nil
		}
	}
}

func (c *consumer) page(ctx context.Context, from, end string, limit int, latency *contract.Latencies) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	asked := time.Now()
	page, err := c.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)))
	if err == nil {
		latency.Add(time.Since(asked))
	}
	return page, err
}

func (c *consumer) Follow(ctx context.Context, shard int, ready func(), take func(record []byte)) error {
	watched := c.client.Watch(ctx, shardOf(c.log, shard), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	for answer := range watched {
		if err := answer.Err(); err != nil {
			return err
		}
		if answer.Created {
			ready()
		}
		for _, event := range answer.Events {
			if event.Type == clientv3.EventTypePut {
				take(event.Kv.Value)
			}
		}
	}
	return errors.New("the watch was closed")
}

func (c *consumer) Close() {
	c.client.Close()
}
