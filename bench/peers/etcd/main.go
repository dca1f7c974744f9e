// The etcd peer of the comparison: `serve` runs its servers, `drive ADDRESS` is its driver.
package main

import (
	"fmt"
	"os"

	"ropewalk/contract"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(arguments []string) int {
	switch {
	case len(arguments) >= 2 && arguments[0] == "serve":
		server := arguments[1]
		return contract.Serve(arguments[2:], func(asked contract.Serving) (contract.Cluster, error) {
			return plan(server, asked)
		})
	case len(arguments) == 2 && arguments[0] == "drive":
		return contract.Drive(newSystem(arguments[1]))
	}
	fmt.Fprintln(os.Stderr, "usage: serve SERVER_PROGRAM FIRST_PORT DIR NODES [NAME=VALUE ...] | drive ADDRESS")
	return 2
}
