// A client of franz-go that logs in: it creates a topic, produces, commits a transaction, aborts another, and prints what
// it reads in a group. Its settings are a JSON object on standard input; see clients.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const deadline = 60 * time.Second

type settings struct {
	Servers   string
	Topic     string
	Mechanism string
	User      string
	Password  string
	Token     string
	Authority string
	Keystore  string
	Values    []string
	Committed string
	Aborted   string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var given settings
	check(json.NewDecoder(os.Stdin).Decode(&given))
	common := []kgo.Opt{kgo.SeedBrokers(given.Servers)}
	if given.Authority != "" {
		common = append(common, kgo.DialTLSConfig(encryption(given)))
	}
	if given.Mechanism != "" {
		common = append(common, kgo.SASL(login(given)))
	}
	administer(ctx, given, client(common))
	write(ctx, given, client(common))
	writeInTransactions(ctx, given, client(append(common, kgo.TransactionalID(given.Topic))))
	read(ctx, given, client(append(common,
		kgo.ConsumerGroup(given.Topic),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)))
}

func encryption(given settings) *tls.Config {
	authority, err := os.ReadFile(given.Authority)
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	found := &tls.Config{RootCAs: trusted}
	if given.Keystore != "" {
		shown, err := tls.LoadX509KeyPair(given.Keystore, given.Keystore)
		check(err)
		found.Certificates = []tls.Certificate{shown}
	}
	return found
}

func login(given settings) sasl.Mechanism {
	password := scram.Auth{User: given.User, Pass: given.Password}
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return password.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return password.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: given.Token}.AsMechanism()
	}
}

func client(options []kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func administer(ctx context.Context, given settings, admin *kgo.Client) {
	defer admin.Close()
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = given.Topic, 1, 1
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, admin)
	check(err)
	for _, each := range response.Topics {
		check(kerr.ErrorForCode(each.ErrorCode))
	}
}

func write(ctx context.Context, given settings, producer *kgo.Client) {
	defer producer.Close()
	for _, value := range given.Values {
		send(ctx, given, producer, value)
	}
}

func writeInTransactions(ctx context.Context, given settings, producer *kgo.Client) {
	defer producer.Close()
	for _, each := range []struct {
		value string
		end   kgo.TransactionEndTry
	}{{given.Committed, kgo.TryCommit}, {given.Aborted, kgo.TryAbort}} {
		check(producer.BeginTransaction())
		send(ctx, given, producer, each.value)
		check(producer.EndTransaction(ctx, each.end))
	}
}

func send(ctx context.Context, given settings, producer *kgo.Client, value string) {
	record := &kgo.Record{Topic: given.Topic, Value: []byte(value)}
	check(producer.ProduceSync(ctx, record).FirstErr())
}

func read(ctx context.Context, given settings, consumer *kgo.Client) {
	defer consumer.Close()
	for left := len(given.Values) + 1; left > 0; {
		fetches := consumer.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			check(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			left--
		})
	}
	check(consumer.CommitUncommittedOffsets(ctx))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
