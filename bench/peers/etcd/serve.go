// The servers: each has its own directory and two ports, for clients and for the other nodes.
package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"ropewalk/contract"
)

const (
	portsEach  = 2
	clientPort = 0
	peerPort   = 1
)

// settings are flags that a log needs: room, large requests, and no compaction behind the driver's back.
func settings(asked contract.Serving) map[string]string {
	chosen := map[string]string{
		"quota-backend-bytes":       "8589934592",
		"max-request-bytes":         "8388608",
		"max-txn-ops":               fmt.Sprint(requestRecordsMost),
		"auto-compaction-retention": "0",
	}
	for _, setting := range asked.Settings {
		chosen[setting.Name] = setting.Value
	}
	return chosen
}

func plan(server string, asked contract.Serving) (contract.Cluster, error) {
	cluster := contract.Cluster{Settings: settings(asked)}
	var addresses, members []string
	for node := range asked.Nodes {
		addresses = append(addresses, fmt.Sprintf("%s:%d", asked.Host(node), asked.Port(node, clientPort, portsEach)))
		members = append(members, nodeName(node)+"="+peerURL(asked, node))
	}
	for node := range asked.Nodes {
		url := "http://" + addresses[node]
		command := []string{
			server,
			"--name=" + nodeName(node),
			"--data-dir=" + filepath.Join(asked.Directory, nodeName(node)),
			"--listen-client-urls=" + url,
			"--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peerURL(asked, node),
			"--initial-advertise-peer-urls=" + peerURL(asked, node),
			"--initial-cluster=" + strings.Join(members, ","),
			"--initial-cluster-state=new",
		}
		for name, value := range cluster.Settings {
			command = append(command, "--"+name+"="+value)
		}
		cluster.Nodes = append(cluster.Nodes, contract.Node{Name: nodeName(node), Command: command, Health: url + "/health"})
	}
	cluster.Address = strings.Join(addresses, ",")
	return cluster, nil
}

func nodeName(node int) string {
	return fmt.Sprintf("node-%d", node+1)
}

func peerURL(asked contract.Serving, node int) string {
	return fmt.Sprintf("http://%s:%d", asked.Host(node), asked.Port(node, peerPort, portsEach))
}
