// The servers: each has its own directory and three ports, for clients, for the other nodes, and for asking its health.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"ropewalk/contract"
)

const (
	portsEach    = 3
	clientPort   = 0
	routePort    = 1
	healthPort   = 2
	payloadLimit = "8MB"
)

func plan(server string, asked contract.Serving) (contract.Cluster, error) {
	cluster := contract.Cluster{Settings: map[string]string{"max_payload": payloadLimit}}
	for _, setting := range asked.Settings {
		cluster.Settings[setting.Name] = setting.Value
	}
	if _, set := cluster.Settings["sync_interval"]; !set {
		cluster.Settings["sync_interval"] = "2m (default)"
	}
	var addresses []string
	for node := range asked.Nodes {
		file := filepath.Join(asked.Directory, fmt.Sprintf("node-%d.conf", node+1))
		if err := os.WriteFile(file, []byte(configuration(asked, node)), 0o644); err != nil {
			return contract.Cluster{}, fmt.Errorf("cannot write the configuration of a server: %w", err)
		}
		addresses = append(addresses, fmt.Sprintf("%s:%d", asked.Host(node), asked.Port(node, clientPort, portsEach)))
		cluster.Nodes = append(cluster.Nodes, contract.Node{
			Name:    nodeName(node),
			Command: []string{server, "-c", file},
			Health:  fmt.Sprintf("http://%s:%d/healthz", asked.Host(node), asked.Port(node, healthPort, portsEach)),
		})
	}
	cluster.Address = strings.Join(addresses, ",")
	if asked.Nodes > 1 {
		cluster.Ready = (&system{addresses: addresses}).waitForLeaders
	}
	return cluster, nil
}

func nodeName(node int) string {
	return fmt.Sprintf("node-%d", node+1)
}

// configuration is a server's file. A single node has no cluster block: with one it would wait for others.
func configuration(asked contract.Serving, node int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "server_name: %s\n", nodeName(node))
	fmt.Fprintf(&text, "listen: \"%s:%d\"\n", asked.Host(node), asked.Port(node, clientPort, portsEach))
	fmt.Fprintf(&text, "http: \"%s:%d\"\n", asked.Host(node), asked.Port(node, healthPort, portsEach))
	fmt.Fprintf(&text, "max_payload: %s\n", payloadLimit)
	fmt.Fprintf(&text, "jetstream {\n  store_dir: %q\n", filepath.Join(asked.Directory, nodeName(node)))
	for _, setting := range asked.Settings {
		fmt.Fprintf(&text, "  %s: %s\n", setting.Name, setting.Value)
	}
	text.WriteString("}\n")
	if asked.Nodes == 1 {
		return text.String()
	}
	fmt.Fprintf(&text, "cluster {\n  name: peers\n  listen: \"%s:%d\"\n  routes: [\n", asked.Host(node), asked.Port(node, routePort, portsEach))
	for other := range asked.Nodes {
		fmt.Fprintf(&text, "    \"nats://%s:%d\"\n", asked.Host(other), asked.Port(other, routePort, portsEach))
	}
	text.WriteString("  ]\n}\n")
	return text.String()
}
