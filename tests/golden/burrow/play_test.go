// Plays scenarios to Burrow's own storage and evaluator, on a virtual clock, and writes down what they answer.
//
// It has to stand inside Burrow's module, at core/internal/scenarios/play_test.go: tests/golden/make_burrow_answers.py
// puts it there, and runs it. Each line of the file SCENARIOS is a scenario in JSON; the file ANSWERS gets a line for
// each, with an answer for each of its questions.
package scenarios

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/viper"
	"go.uber.org/zap"

	"github.com/linkedin/Burrow/core/internal/evaluator"
	"github.com/linkedin/Burrow/core/internal/storage"
	"github.com/linkedin/Burrow/core/protocol"
)

const cluster = "c1"

type event struct {
	At         int64  `json:"at"` // ms since the start of the scenario
	Do         string `json:"do"`
	Group      string `json:"group"`
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	Partitions int32  `json:"partitions"` // of the topic
	Offset     int64  `json:"offset"`
}

type scenario struct {
	MinimumComplete float64 `json:"minimum_complete"`
	Events          []event `json:"events"`
}

func TestPlay(t *testing.T) {
	in, err := os.Open(os.Getenv("SCENARIOS"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(os.Getenv("ANSWERS"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var script scenario
		if err := json.Unmarshal(lines.Bytes(), &script); err != nil {
			t.Fatal(err)
		}
		var answers []*protocol.ConsumerGroupStatus
		synctest.Test(t, func(t *testing.T) { answers = play(t, script) })
		line, err := json.Marshal(answers)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func play(t *testing.T, script scenario) []*protocol.ConsumerGroupStatus {
	viper.Reset()
	viper.Set("cluster."+cluster+".class-name", "kafka")
	viper.Set("storage.default.workers", 1)
	viper.Set("evaluator.default.minimum-complete", script.MinimumComplete)
	app := &protocol.ApplicationContext{}
	memory := &storage.InMemoryStorage{App: app, Log: zap.NewNop()}
	memory.Configure("default", "storage.default")
	app.StorageChannel = memory.GetCommunicationChannel()
	if err := memory.Start(); err != nil {
		t.Fatal(err)
	}
	start, answers := time.Now(), []*protocol.ConsumerGroupStatus{}
	for _, each := range script.Events {
		time.Sleep(time.Until(start.Add(time.Duration(each.At) * time.Millisecond)))
		request := &protocol.StorageRequest{
			Cluster:             cluster,
			Group:               each.Group,
			Topic:               each.Topic,
			Partition:           each.Partition,
			TopicPartitionCount: each.Partitions,
			Offset:              each.Offset,
			Timestamp:           time.Now().UnixMilli(),
		}
		switch each.Do {
		case "ask":
			answers = append(answers, ask(t, app, each.Group))
			continue
		case "end":
			request.RequestType = protocol.StorageSetBrokerOffset
		case "commit":
			request.RequestType = protocol.StorageSetConsumerOffset
		case "delete_topic":
			request.RequestType = protocol.StorageSetDeleteTopic
		case "delete_group":
			request.RequestType = protocol.StorageSetDeleteGroup
		default:
			t.Fatalf("no such event: %s", each.Do)
		}
		app.StorageChannel <- request
		synctest.Wait()
	}
	if err := memory.Stop(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// ask asks an evaluator that has answered nothing yet: it keeps its answers for a while.
func ask(t *testing.T, app *protocol.ApplicationContext, group string) *protocol.ConsumerGroupStatus {
	judge := &evaluator.CachingEvaluator{App: app, Log: zap.NewNop()}
	judge.Configure("default", "evaluator.default")
	if err := judge.Start(); err != nil {
		t.Fatal(err)
	}
	request := &protocol.EvaluatorRequest{
		Reply:   make(chan *protocol.ConsumerGroupStatus),
		Cluster: cluster,
		Group:   group,
		ShowAll: true,
	}
	judge.GetCommunicationChannel() <- request
	answer := <-request.Reply
	if err := judge.Stop(); err != nil {
		t.Fatal(err)
	}
	return answer
}
