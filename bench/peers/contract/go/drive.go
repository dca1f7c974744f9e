// The driver's loop: a command a line from standard input, its events to standard output, until standard input ends.
package contract

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
)

const commandBytesMost = 1 << 20

// Drive runs a driver for a system and returns the process's exit code.
func Drive(system System) int {
	if err := answerAll(system, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func answerAll(system System, from io.Reader, to io.Writer) error {
	answer := newEvents(to)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, commandBytesMost)
	for lines.Scan() {
		if err := answerOne(system, lines.Bytes(), answer); err != nil {
			answer.failed(err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read commands from standard input: %w", err)
	}
	return nil
}

func answerOne(system System, line []byte, answer *events) error {
	command, err := parseCommand(line)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch command := command.(type) {
	case describeCommand:
		client, version, settings := system.Describe()
		answer.write(describedEvent{Event: "described", Client: client, Version: version, Settings: settings})
	case Log:
		if err := system.Create(ctx, command); err != nil {
			return fmt.Errorf("cannot create the log %s: %w", command.Name, err)
		}
		answer.plain("created")
	case leaderCommand:
		node, err := system.Leader(ctx, command.log)
		if err != nil {
			return fmt.Errorf("cannot find who leads the log %s: %w", command.log, err)
		}
		answer.write(leaderEvent{Event: "leader", Node: node})
	case deleteCommand:
		if err := system.Delete(ctx, command.log); err != nil {
			return fmt.Errorf("cannot delete the log %s: %w", command.log, err)
		}
		answer.plain("deleted")
	case AppendCommand:
		return appendRecords(ctx, system, command, answer)
	case ReadCommand:
		return readRecords(ctx, system, command, answer)
	}
	return nil
}
