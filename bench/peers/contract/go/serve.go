// The contract's `serve`: starts a system's processes, says when all are ready, and ends them on SIGTERM. A peer says which
// processes there are and how to ask whether they serve.
package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	readyPatience = 170 * time.Second // the harness waits for 180
	endPatience   = 20 * time.Second
	// As contract/shell/look does it for the others: start times are compared.
	lookPause = 2 * time.Millisecond
)

// Serving is what a `serve` was asked for.
type Serving struct {
	FirstPort int
	Directory string // absolute, and there
	Nodes     int
	Settings  []Setting // NAME=VALUE arguments, in their order
	Hosts     []string  // the addresses of those that nodes run on, one on each; empty is this machine
	Own       int       // the node that is started here, from 0, where there are hosts
}

// Host is where a node listens and is found.
func (s Serving) Host(node int) string {
	if len(s.Hosts) == 0 {
		return "127.0.0.1"
	}
	return s.Hosts[node]
}

// Setting is one of them.
type Setting struct{ Name, Value string }

// Cluster is the system's processes.
type Cluster struct {
	Address  string // for drivers
	Settings map[string]string
	Nodes    []Node
	// Ready, if any, is asked once all nodes are healthy, and returns when the cluster as a whole serves.
	Ready func(ctx context.Context) error
}

// Node is one process. Its output goes to NAME.log in the directory.
type Node struct {
	Name    string
	Command []string
	Health  string // a URL that answers 200 once the node serves
}

// Serve runs a cluster in the foreground and returns the process's exit code. Arguments: FIRST_PORT DIR NODES [NAME=VALUE ...].
func Serve(arguments []string, plan func(Serving) (Cluster, error)) int {
	if err := serve(arguments, plan); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serve(arguments []string, plan func(Serving) (Cluster, error)) error {
	asked, err := parseServing(arguments)
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	cluster, err := plan(asked)
	if err != nil {
		return err
	}
	if len(asked.Hosts) > 0 {
		cluster.Nodes = cluster.Nodes[asked.Own : asked.Own+1]
	}
	running := &processes{directory: asked.Directory, ended: make(chan end, len(cluster.Nodes))}
	defer running.end()
	for _, node := range cluster.Nodes {
		if err := running.start(node); err != nil {
			return err
		}
	}
	readyBy := time.Now().Add(readyPatience)
	for _, node := range cluster.Nodes {
		if over, err := running.waitReady(node, readyBy, ended); over {
			return err
		}
	}
	if cluster.Ready != nil {
		ctx, cancel := context.WithDeadline(context.Background(), readyBy)
		defer cancel()
		if err := cluster.Ready(ctx); err != nil {
			return fmt.Errorf("the nodes are healthy but do not serve: %w", err)
		}
	}
	if err := running.sayReady(cluster); err != nil {
		return err
	}
	for {
		select {
		case end := <-running.ended:
			running.left--
			// One of several that is killed is meant to be missed: the others go on.
			if !end.killed || running.left == 0 {
				return end.err
			}
		case <-ended:
			return nil
		}
	}
}

func parseServing(arguments []string) (Serving, error) {
	usage := "usage: serve FIRST_PORT DIR NODES [NAME=VALUE ...]"
	if len(arguments) < 3 {
		return Serving{}, fmt.Errorf("%s", usage)
	}
	port, err := strconv.ParseUint(arguments[0], 10, 16)
	if err != nil || port == 0 {
		return Serving{}, fmt.Errorf("%q is no port; %s", arguments[0], usage)
	}
	nodes, err := strconv.ParseUint(arguments[2], 10, 8)
	if err != nil || nodes == 0 {
		return Serving{}, fmt.Errorf("%q is no number of nodes; %s", arguments[2], usage)
	}
	directory, err := filepath.Abs(arguments[1])
	if err != nil {
		return Serving{}, err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return Serving{}, fmt.Errorf("cannot make the directory for data: %w", err)
	}
	asked := Serving{FirstPort: int(port), Directory: directory, Nodes: int(nodes)}
	if hosts := os.Getenv("ROPEWALK_HOSTS"); hosts != "" {
		asked.Hosts = strings.Split(hosts, ",")
		own, err := strconv.Atoi(os.Getenv("ROPEWALK_NODE"))
		if err != nil || own < 1 || own > asked.Nodes || len(asked.Hosts) != asked.Nodes {
			return Serving{}, fmt.Errorf("ROPEWALK_HOSTS has %d hosts, and ROPEWALK_NODE is %q; %d nodes were asked for",
				len(asked.Hosts), os.Getenv("ROPEWALK_NODE"), asked.Nodes)
		}
		asked.Own = own - 1
	}
	for _, argument := range arguments[3:] {
		name, value, found := strings.Cut(argument, "=")
		if !found {
			return Serving{}, fmt.Errorf("%q is not of the form NAME=VALUE; %s", argument, usage)
		}
		asked.Settings = append(asked.Settings, Setting{Name: name, Value: value})
	}
	return asked, nil
}

// Port is one of a node's ports, where each node has `each` of them.
func (s Serving) Port(node, number, each int) int {
	return s.FirstPort + node*each + number
}

type processes struct {
	directory string
	started   []*exec.Cmd
	ended     chan end
	left      int
}

// end is how a process ended: by SIGKILL, and in words.
type end struct {
	killed bool
	err    error
}

func (p *processes) start(node Node) error {
	output, err := os.OpenFile(p.logOf(node), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cannot write %s's output: %w", node.Name, err)
	}
	defer output.Close()
	process := exec.Command(node.Command[0], node.Command[1:]...)
	process.Dir = p.directory
	process.Stdout, process.Stderr = output, output
	if err := process.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", node.Name, err)
	}
	p.started = append(p.started, process)
	p.left++
	go func() {
		err := process.Wait()
		p.ended <- end{
			killed: process.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL,
			err:    fmt.Errorf("%s ended (%v); the last lines of %s:\n%s", node.Name, exitOf(err), p.logOf(node), p.lastLines(node)),
		}
	}()
	return nil
}

func exitOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

func (p *processes) logOf(node Node) string {
	return filepath.Join(p.directory, node.Name+".log")
}

func (p *processes) lastLines(node Node) string {
	text, err := os.ReadFile(p.logOf(node))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// waitReady tells whether there is nothing more to wait for: the node failed, or a signal came.
func (p *processes) waitReady(node Node, deadline time.Time, signals <-chan os.Signal) (over bool, err error) {
	client := &http.Client{Timeout: 2 * time.Second}
	said := "nothing"
	for time.Now().Before(deadline) {
		response, err := client.Get(node.Health)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return false, nil
			}
			said = response.Status
		} else {
			said = err.Error()
		}
		select {
		case end := <-p.ended:
			p.left--
			return true, end.err
		case <-signals:
			return true, nil
		case <-time.After(lookPause):
		}
	}
	return true, fmt.Errorf("%s was not ready within %v (%s said: %s); see %s",
		node.Name, readyPatience, node.Health, said, p.logOf(node))
}

func (p *processes) sayReady(cluster Cluster) error {
	var pids []int
	var nodes [][]int
	for _, process := range p.started {
		pids = append(pids, process.Process.Pid)
		nodes = append(nodes, []int{process.Process.Pid})
	}
	type ready struct {
		Address  string            `json:"address"`
		Pids     []int             `json:"pids"`
		Nodes    [][]int           `json:"nodes"`
		Settings map[string]string `json:"settings"`
	}
	line := map[string]ready{"ready": {Address: cluster.Address, Pids: pids, Nodes: nodes, Settings: cluster.Settings}}
	return json.NewEncoder(os.Stdout).Encode(line)
}

// end asks every process to end, and kills those that do not.
func (p *processes) end() {
	for _, process := range p.started {
		_ = process.Process.Signal(syscall.SIGTERM) // it may have ended already
	}
	patience := time.After(endPatience)
	for ; p.left > 0; p.left-- {
		select {
		case <-p.ended:
		case <-patience:
			for _, process := range p.started {
				_ = process.Process.Kill()
			}
			return
		}
	}
}
