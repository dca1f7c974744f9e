// Command log_judge judges a history of clients' operations on a replicated log, by Porcupine: is there one order of them, each at a moment between
// its call and its return, in which every partition behaves as a log? It is no client, and knows nothing of how the history came to be.
//
//	log_judge HISTORY
//
// HISTORY has a JSON object a line: see operation. A partition that is no log, or about which no verdict is reached in time, ends it with status 1.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// So long a search for an order may take, for one partition.
const patience = 60 * time.Second

// operation is what one client asked of one partition, and what it was told. Times are nanoseconds of one clock.
type operation struct {
	Client    int   `json:"client"`
	Node      int   `json:"node"`
	Partition int   `json:"partition"`
	Call      int64 `json:"call"`
	Return    int64 `json:"return"`
	// "append", "read" or "tail".
	Kind string `json:"kind"`
	// Of an append: "ok", "unknown" or "refused". All others have an answer.
	Outcome string `json:"outcome"`
	// Of an append that is to stand at one place or nowhere: that place, and where it was refused the tail that it was told.
	Wanted *int `json:"wanted"`
	// Of an append. No value is written twice.
	Value string `json:"value"`
	// Of an append where its value stands, of a read where it begins.
	Offset int `json:"offset"`
	// The values that a read found.
	Values []string `json:"values"`
	// The end of the log, as a read or a question for the tail was told.
	Tail int `json:"tail"`
	// Says that the tail must be that of the moment. Otherwise it may be an earlier one.
	Fresh bool `json:"fresh"`
}

// log is the model: a log that grows by a value at a time, is read up to its end, and forgets nothing. Its state are the values.
var log = porcupine.Model{
	Init:  func() any { return []string(nil) },
	Step:  func(state, input, _ any) (bool, any) { return step(state.([]string), input.(*operation)) },
	Equal: func(one, other any) bool { return slices.Equal(one.([]string), other.([]string)) },
}

// step says whether the answer fits a log that has these values, and what it has then.
func step(values []string, told *operation) (bool, []string) {
	if told.Outcome == "refused" {
		// Where it is told the tail that it wanted, another append was under way there, which may have failed since.
		isUnderWay := told.Tail == *told.Wanted
		return told.Tail <= len(values) && (isUnderWay || len(values) != *told.Wanted), values
	}
	if told.Kind == "append" {
		if told.Wanted != nil && *told.Wanted != told.Offset {
			return false, values
		}
		// A copy: other orders go on from the same state.
		return told.Offset == len(values), append(values[:len(values):len(values)], told.Value)
	}
	end := told.Offset + len(told.Values)
	if told.Tail > len(values) || told.Fresh && told.Tail < len(values) || len(told.Values) > 0 && end > told.Tail {
		return false, values
	}
	return len(told.Values) == 0 || slices.Equal(values[told.Offset:end], told.Values), values
}

func (told *operation) String() string {
	switch told.Kind {
	case "append":
		where := ""
		if told.Wanted != nil {
			where = fmt.Sprintf(" if at %d, tail %d", *told.Wanted, told.Tail)
		}
		return fmt.Sprintf("client %d: append %q at %d (%s)%s", told.Client, told.Value, told.Offset, told.Outcome, where)
	case "read":
		return fmt.Sprintf("client %d: read %q from %d, tail %d, of node %d", told.Client, told.Values, told.Offset, told.Tail, told.Node)
	}
	return fmt.Sprintf("client %d: tail %d, of node %d", told.Client, told.Tail, told.Node)
}

// complete gives appends of unknown outcome the place at which a reader saw their value; they may have come about at any time since. Those that nobody saw are left
// out: if they came about, then behind everything that was seen.
func complete(operations []*operation) ([]*operation, string) {
	places := map[string]int{}
	for _, told := range operations {
		for index, value := range told.Values {
			if _, known := places[value]; !known {
				places[value] = told.Offset + index
			}
		}
	}
	var completed []*operation
	for _, told := range operations {
		if told.Kind == "append" && told.Outcome == "refused" {
			if _, seen := places[told.Value]; seen {
				return nil, fmt.Sprintf("it was refused, and is there: %v", told)
			}
		}
		if told.Kind == "append" && told.Outcome == "unknown" {
			place, seen := places[told.Value]
			if !seen {
				continue
			}
			told.Offset, told.Return = place, math.MaxInt64
		}
		completed = append(completed, told)
	}
	return completed, ""
}

// judge says what is wrong with the operations of a partition; nothing if they are those of a log.
func judge(operations []*operation) string {
	if wrong := tailsMovedBack(operations); wrong != "" {
		return wrong
	}
	var history []porcupine.Operation
	for _, told := range operations {
		history = append(history, porcupine.Operation{ClientId: told.Client, Input: told, Call: told.Call, Return: told.Return})
	}
	result := porcupine.CheckOperationsTimeout(log, history, patience)
	switch result {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("no verdict within %v", patience)
	}
	return "no order of its operations is that of a log" + firstBad(operations)
}

// tailsMovedBack finds a node that told a tail and later an earlier one: it must not, whether it leads or only believes so.
func tailsMovedBack(operations []*operation) string {
	byNode := map[int][]*operation{}
	for _, told := range operations {
		if told.Kind != "append" {
			byNode[told.Node] = append(byNode[told.Node], told)
		}
	}
	for node, told := range byNode {
		returned := append([]*operation(nil), told...)
		sort.Slice(told, func(one, other int) bool { return told[one].Call < told[other].Call })
		sort.Slice(returned, func(one, other int) bool { return returned[one].Return < returned[other].Return })
		greatest, next := 0, 0
		for _, later := range told {
			for ; next < len(returned) && returned[next].Return < later.Call; next++ {
				greatest = max(greatest, returned[next].Tail)
			}
			if later.Tail < greatest {
				return fmt.Sprintf("the tail of node %d moved back: %d, and later %v", node, greatest, later)
			}
		}
	}
	return ""
}

// firstBad finds the shortest beginning of the history that is no log's: its last operation is told.
func firstBad(operations []*operation) string {
	byReturn := append([]*operation(nil), operations...)
	sort.Slice(byReturn, func(one, other int) bool { return byReturn[one].Return < byReturn[other].Return })
	isSound := func(count int) bool {
		var history []porcupine.Operation
		end := byReturn[count-1].Return
		for index, told := range byReturn {
			// An operation that was called, and had not returned, may have come about.
			if index < count || told.Kind == "append" && told.Outcome != "refused" && told.Call < end {
				back := told.Return
				if index >= count {
					back = math.MaxInt64
				}
				history = append(history, porcupine.Operation{ClientId: told.Client, Input: told, Call: told.Call, Return: back})
			}
		}
		return porcupine.CheckOperationsTimeout(log, history, patience) != porcupine.Illegal
	}
	count := sort.Search(len(byReturn), func(count int) bool { return !isSound(count + 1) })
	if count == len(byReturn) {
		return ""
	}
	return fmt.Sprintf("; not any more since %v", byReturn[count])
}

// stale counts the tails that were below what had been acknowledged before the question.
func stale(operations []*operation) int {
	byCall := append([]*operation(nil), operations...)
	sort.Slice(byCall, func(one, other int) bool { return byCall[one].Call < byCall[other].Call })
	var acknowledged []*operation
	for _, told := range operations {
		if told.Kind == "append" && told.Outcome == "ok" {
			acknowledged = append(acknowledged, told)
		}
	}
	sort.Slice(acknowledged, func(one, other int) bool { return acknowledged[one].Return < acknowledged[other].Return })
	end, next, count := 0, 0, 0
	for _, told := range byCall {
		for ; next < len(acknowledged) && acknowledged[next].Return < told.Call; next++ {
			end = max(end, acknowledged[next].Offset+1)
		}
		if told.Kind != "append" && told.Tail < end {
			count++
		}
	}
	return count
}

func readHistory(path string) (map[int][]*operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	partitions := map[int][]*operation{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		told := &operation{}
		if err := json.Unmarshal(lines.Bytes(), told); err != nil {
			return nil, err
		}
		partitions[told.Partition] = append(partitions[told.Partition], told)
	}
	return partitions, lines.Err()
}

func main() {
	partitions, err := readHistory(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	status, operations, unknown, refused, old := 0, 0, 0, 0, 0
	for partition, told := range partitions {
		old += stale(told)
		for _, each := range told {
			if each.Kind == "append" && each.Outcome == "unknown" {
				unknown++
			}
			if each.Outcome == "refused" {
				refused++
			}
		}
		operations += len(told)
		completed, wrong := complete(told)
		if wrong == "" {
			wrong = judge(completed)
		}
		if wrong != "" {
			fmt.Printf("partition %d: %s\n", partition, wrong)
			status = 1
		}
	}
	fmt.Printf("operations %d unknown %d refused %d stale %d\n", operations, unknown, refused, old)
	os.Exit(status)
}
