// Transactions with kafkajs, by the contract of tests/clients/README.md.
'use strict'

const readline = require('node:readline')

const IN_A_TRANSACTION = 20
const ok = ['ok']
const tell = (...words) => process.stdout.write(words.join(' ') + '\n')

/** The programs that only clients with transactions have. */
module.exports = ({ kafka, eachCommand, sessionMs, heartbeatMs }) => {
  // The partition is told with each message.
  const producerOf = (transactionalId, timeoutMs) =>
    kafka.producer({ transactionalId, transactionTimeout: Number(timeoutMs), idempotent: true, maxInFlightRequests: 1 })

  // The client reads as a member of a group only.
  async function follow(topic, isolation) {
    const groupId = `followers-${topic}-${isolation}-${process.pid}`
    const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 200, readUncommitted: isolation === 'uncommitted' })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    // The client reads as a member of a group only. When its coordinator has moved, it begins anew where the group has committed, which is nowhere.
    const next = new Map()
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        const offset = Number(message.offset)
        if (offset < (next.get(partition) ?? 0)) return
        next.set(partition, offset + 1)
        await tell('read', partition, message.offset, message.value)
      },
    })
    await new Promise(() => {})
  }

  async function transact(transactionalId, timeoutMs) {
    const producer = producerOf(transactionalId, timeoutMs)
    const admin = kafka.admin()
    await producer.connect()
    await admin.connect()
    let transaction
    const deeds = {
      // The client asks for the producer's id with the first transaction.
      init: async () => {
        await (await producer.transaction()).abort()
        return ok
      },
      begin: async () => {
        transaction = await producer.transaction()
        return ok
      },
      send: async (topic, partition, ...values) => {
        const messages = values.map((value) => ({ partition: Number(partition), value }))
        return [(await transaction.send({ topic, messages }))[0].baseOffset]
      },
      offsets: async (consumerGroupId, topic, partition, offset) => {
        await transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition: Number(partition), offset }] }] })
        return ok
      },
      commit: async () => {
        await transaction.commit()
        return ok
      },
      abort: async () => {
        await transaction.abort()
        return ok
      },
      // The client lists offsets as those see them who read what is committed.
      tail: async (topic, partition, isolation) => {
        if (isolation !== 'committed') return ['lacks']
        return [(await admin.fetchTopicOffsets(topic)).find((told) => told.partition === Number(partition)).high]
      },
    }
    await eachCommand(async ([name, ...arguments_]) => {
      try {
        tell(...(await deeds[name](...arguments_)))
      } catch (error) {
        tell('error', error.name, error.type, error.message)
      }
    })
    process.exit(0)
  }

  async function transform(transactionalId, timeoutMs, groupId, source, target) {
    const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()
    const producer = producerOf(transactionalId, timeoutMs)
    const consumer = kafka.consumer({
      groupId, sessionTimeout: sessionMs, rebalanceTimeout: sessionMs, heartbeatInterval: heartbeatMs, maxWaitTimeInMs: 200, retry: { retries: 5 },
    })
    // The last that the client tells its user, when it gives up.
    consumer.on(consumer.events.CRASH, ({ payload }) => give(payload.error))
    await producer.connect()
    await (await producer.transaction()).abort()
    await consumer.connect()
    await consumer.subscribe({ topics: [source], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch, resolveOffset, isStale, heartbeat }) => {
        const { partition } = batch
        for (let at = 0; at < batch.messages.length && !isStale(); at += IN_A_TRANSACTION) {
          const handed = batch.messages.slice(at, at + IN_A_TRANSACTION)
          const offset = String(BigInt(handed.at(-1).offset) + 1n)
          const topics = [{ topic: source, partitions: [{ partition, offset }] }]
          try {
            const copies = handed.map(({ key, value }) => ({ partition, key, value }))
            while (!isStale() && !(await copy(copies, topics, isStale)));
          } catch (error) {
            give(error)
          }
          resolveOffset(handed.at(-1).offset)
          await heartbeat()
        }
      },
    })
    await new Promise(() => {})

    /** Makes one transaction, as the lines say; whether it was committed. */
    async function copy(messages, topics, isStale) {
      const transaction = await producer.transaction()
      await transaction.send({ topic: target, messages })
      tell('sent', messages.length)
      for (;;) {
        const { value: word, done } = await lines.next()
        if (done) throw new Error('the input has ended in the middle of a transaction')
        if (word === 'offsets') {
          await transaction.sendOffsets({ consumerGroupId: groupId, topics })
          tell('added')
        } else if (word === 'commit' && !isStale()) {
          await transaction.commit()
          tell('committed')
          return true
        } else {
          await transaction.abort()
          tell('aborted')
          return false
        }
      }
    }
  }

  return { follow, transact, transform }
}

function give(error) {
  console.error(error)
  process.exit(1)
}
