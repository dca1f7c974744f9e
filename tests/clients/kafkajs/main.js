// kafkajs by the contract of tests/clients/README.md.
'use strict'

const readline = require('node:readline')
const {
  Kafka, Partitioners, PartitionAssigners, CompressionTypes, CompressionCodecs, ConfigResourceTypes, KafkaJSNotImplemented, logLevel,
} = require('kafkajs')

const KEYS = 18
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const LETTERS_OF_CODEC = 20
const SESSION_MS = 3000
const HEARTBEAT_MS = 500

const [addresses, command, ...arguments_] = process.argv.slice(2)
const kafka = new Kafka({
  brokers: addresses.split(','),
  logLevel: logLevel.ERROR,
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 200 },
})

const tell = (...words) => process.stdout.write(words.join(' ') + '\n')

async function eachCommand(obey) {
  for await (const line of readline.createInterface({ input: process.stdin })) await obey(line.split(' '))
}

async function produce(topic) {
  // The client tells one offset for each partition of a request, so we note which record went where.
  const homes = new Map()
  const createPartitioner = () => {
    const choose = Partitioners.DefaultPartitioner()
    return (asked) => {
      const partition = choose(asked)
      homes.set(asked.message, partition)
      return partition
    }
  }
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner })
  await producer.connect()
  await eachCommand(async ([first, count]) => {
    const messages = Array.from({ length: Number(count) }, (_, i) => {
      const number = Number(first) + i
      const key = `k${number % KEYS}`
      return { key, value: `${key}:${number}` }
    })
    const next = new Map()
    // The client is content too soon when a partition's leader changes: what it does not tell of it has not sent to the new one.
    for (let left = messages; left.length > 0; left = left.filter((message) => !next.has(homes.get(message)))) {
      for (const told of await producer.send({ topic, messages: left })) next.set(told.partition, BigInt(told.baseOffset))
    }
    for (const message of messages) {
      const partition = homes.get(message)
      tell('acknowledged', partition, next.get(partition), message.key, message.value)
      next.set(partition, next.get(partition) + 1n)
    }
    homes.clear()
  })
  await producer.disconnect()
}

async function consume(topic, group, protocol) {
  const assigners = { roundrobin: PartitionAssigners.roundRobin }
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: SESSION_MS,
    rebalanceTimeout: SESSION_MS,
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: 200,
    partitionAssigners: [assigners[protocol]],
    // The client asks for the coordinator anew when it has given up the one that it knows.
    retry: { retries: 5 },
  })
  process.once('SIGTERM', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  // What it was given last. The client hands on what it fetched before, too, and commits that in whatever generation it is in by then.
  let owned = []
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    owned = payload.memberAssignment[topic] ?? []
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, resolveOffset }) => {
      const given = owned
      if (!given.includes(batch.partition)) return
      for (const message of batch.messages) tell('read', batch.partition, message.offset, message.key, message.value)
      const next = String(BigInt(batch.lastOffset()) + 1n)
      try {
        await consumer.commitOffsets([{ topic, partition: batch.partition, offset: next }])
        if (owned !== given) throw new Error(`the group has moved on while ${next} of ${batch.partition} was committed`)
      } catch (error) {
        // The client then joins anew, or fetches the batch again. It does not recognize what it has wrapped itself.
        tell('uncommitted', batch.partition)
        throw error.name === 'KafkaJSNonRetriableError' ? error.cause : error
      }
      tell('committed', batch.partition, next)
      resolveOffset(batch.lastOffset())
    },
  })
}

/** The messages that are sent with a codec; a tombstone has no value. */
function letters(codec) {
  // So long that it pays to compress a letter alone: a client may leave what would not get smaller.
  const headers = { codec, weave: 'warp-weft-'.repeat(20) }
  return Array.from({ length: LETTERS_OF_CODEC }, (_, number) => ({
    key: `${codec}-${number}`,
    value: number % 5 === 4 ? null : `${codec}:${number}`,
    headers,
  }))
}

/** The client leaves all codecs but gzip to its users. */
function lacks(codec) {
  if (codec === 'none') return false
  try {
    CompressionCodecs[CODECS[codec]]()
    return false
  } catch (error) {
    if (error instanceof KafkaJSNotImplemented) return true
    throw error
  }
}

async function codecs(topic) {
  const createPartitioner = Partitioners.DefaultPartitioner
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, createPartitioner })
  await producer.connect()
  let left = 0
  for (const codec of Object.keys(CODECS)) {
    if (lacks(codec)) {
      tell('lacks', codec)
      continue
    }
    await producer.send({ topic, compression: CODECS[codec], messages: letters(codec) })
    tell('sent', codec)
    left += LETTERS_OF_CODEC
  }
  await producer.disconnect()
  // The client reads as a member of a group only.
  const consumer = kafka.consumer({ groupId: 'letters', maxWaitTimeInMs: 200 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      const headers = Object.entries(message.headers).map(([name, text]) => `${name}=${text}`)
      tell('read', message.offset, message.key, message.value === null ? '-' : message.value, ...headers)
      if (--left === 0) resolve()
    }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
  })
  await consumer.disconnect()
}

const TOPIC = { type: ConfigResourceTypes.TOPIC }

async function admin() {
  const admin = kafka.admin()
  await admin.connect()
  const deeds = {
    create: async (topic, numPartitions) => {
      if (!(await admin.createTopics({ topics: [{ topic, numPartitions: Number(numPartitions), replicationFactor: -1 }], waitForLeaders: false }))) {
        throw new Error('the topic exists')
      }
      return ['ok']
    },
    delete: async (topic) => {
      await admin.deleteTopics({ topics: [topic] })
      return ['ok']
    },
    topics: () => admin.listTopics(),
    describe: async (topic) => [(await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length],
    groups: async () => (await admin.listGroups()).groups.map((group) => group.groupId),
    offsets: async (groupId, topic) => {
      const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
      return found.partitions.map(({ partition, offset }) => `${partition}:${offset}`)
    },
    config: async (name, configName) => {
      const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ ...TOPIC, name, configNames: [configName] }] })
      return resources[0].configEntries.map((entry) => entry.configValue)
    },
    set: async (name, configName, value) => {
      await admin.alterConfigs({ validateOnly: false, resources: [{ ...TOPIC, name, configEntries: [{ name: configName, value }] }] })
      return ['ok']
    },
    grow: async (topic, count) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: Number(count) }] })
      return ['ok']
    },
    since: async (topic, partition, ms) => {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(ms))
      return [found.find((place) => place.partition === Number(partition)).offset]
    },
    trim: async (topic, partition, offset) => {
      // The client looks for the leader among the topics that it knows, and only then asks for this one.
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: Number(partition), offset }] })
      return ['ok']
    },
    state: async (groupId) => [(await admin.describeGroups([groupId])).groups[0].state.toLowerCase()],
    forget: async (groupId) => {
      await admin.deleteGroups([groupId])
      return ['ok']
    },
    transaction: async (topic) => {
      const producer = kafka.producer({ transactionalId: 'once', idempotent: true, maxInFlightRequests: 1 })
      await producer.connect()
      try {
        const transaction = await producer.transaction()
        await transaction.send({ topic, messages: [{ value: 'in a transaction' }] })
        await transaction.commit()
      } finally {
        await producer.disconnect()
      }
      return ['ok']
    },
  }
  await eachCommand(async ([name, ...arguments_]) => {
    try {
      tell(...(await deeds[name](...arguments_)))
    } catch (error) {
      tell('error', error.name, error.message)
    }
  })
  await admin.disconnect()
}

const transactions = require('./transactions')({ kafka, eachCommand, sessionMs: SESSION_MS, heartbeatMs: HEARTBEAT_MS })
const programs = { produce, consume, codecs, admin, ...transactions }
programs[command](...arguments_).catch((error) => {
  console.error(error)
  process.exit(1)
})
