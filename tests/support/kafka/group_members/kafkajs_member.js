// A member of a group by KafkaJS; prints its events as journal.py does. Run by `kafkajs_command`.
const { AssignerProtocol } = require('kafkajs');

const tell = (event, more) =>
    console.log(JSON.stringify({ at_s: Number(process.hrtime.bigint()) / 1e9, event, ...more }));

// KafkaJS comes with an assigner of its own alone, which no other client has.
const range = ({ cluster }) => ({
    name: 'range',
    version: 0,
    protocol: ({ topics }) => ({
        name: 'range',
        metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
    }),
    assign: async ({ members, topics }) => {
        const ids = members.map(each => each.memberId).sort();
        const assigned = Object.fromEntries(ids.map(id => [id, {}]));
        for (const topic of topics) {
            const all = cluster.findTopicPartitionMetadata(topic).map(each => each.partitionId).sort((a, b) => a - b);
            const each = Math.floor(all.length / ids.length), extra = all.length % ids.length;
            ids.forEach((id, index) => {
                const start = each * index + Math.min(index, extra);
                assigned[id][topic] = all.slice(start, start + each + (index < extra ? 1 : 0));
            });
        }
        return ids.map(memberId => ({
            memberId,
            memberAssignment: AssignerProtocol.MemberAssignment.encode(
                { version: 0, assignment: assigned[memberId], userData: Buffer.alloc(0) }),
        }));
    },
});

const { topic, group, name, sessionMs, heartbeatMs } = facts;
const kafka = new Kafka({ clientId: name, brokers: facts.servers, logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 1000 } });
const consumer = kafka.consumer({ groupId: group, partitionAssigners: [range], sessionTimeout: sessionMs,
    heartbeatInterval: heartbeatMs, rebalanceTimeout: 60000, metadataMaxAge: 1000, maxWaitTimeInMs: 100,
    allowAutoTopicCreation: false });
let owned = [];
const revoke = () => { tell('revoked', { partitions: owned }); owned = []; };
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (owned.length > 0) revoke();
    owned = [...(payload.memberAssignment[topic] || [])].sort((a, b) => a - b);
    tell('assigned', { partitions: owned });
});
consumer.on(consumer.events.REBALANCING, revoke);
process.on('SIGTERM', async () => { await consumer.disconnect(); revoke(); process.exit(0); });

await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
        if (!isRunning() || isStale() || batch.messages.length === 0) return;
        const { partition } = batch;
        const first = Number(batch.firstOffset()), next = Number(batch.lastOffset()) + 1;
        tell('read', { ranges: [[partition, first, next]] });
        try {
            await consumer.commitOffsets([{ topic, partition, offset: String(next) }]);
        } catch (error) {
            tell('failed', { what: 'commit', error: String(error) });
            throw error;
        }
        tell('committed', { ranges: [[partition, first, next]] });
        resolveOffset(String(next - 1));
        await heartbeat();
    },
});
