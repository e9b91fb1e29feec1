package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// The cluster's DNS, as far as tests need it: the addresses of Services that have
// one, over UDP. There is no outside, so every other name doesn't exist.

const dnsSuffix = ".svc.cluster.local."

// Seconds. A Service that is made anew must not be looked for at its old address.
const dnsTTL = 1

func dnsCommand() *cobra.Command {
	var kubeconfig, address string
	command := &cobra.Command{
		Use:   "cluster-dns",
		Short: "answer for the names of Services",
		RunE: func(command *cobra.Command, _ []string) error {
			return serveDNS(command.Context(), kubeconfig, address)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server")
	command.Flags().StringVar(&address, "address", "127.0.0.1:53", "where to answer, UDP")
	return command
}

func serveDNS(ctx context.Context, kubeconfig, address string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services()
	synced := services.Informer().HasSynced
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return ctx.Err()
	}
	socket, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "cluster-dns: answering on", address)
	query := make([]byte, 4096)
	for {
		length, from, err := socket.ReadFrom(query)
		if err != nil {
			return err
		}
		if answer := answerDNS(query[:length], services.Lister()); answer != nil {
			// A client that doesn't hear it asks again.
			_, _ = socket.WriteTo(answer, from)
		}
	}
}

// answerDNS gives nil for what is no question.
func answerDNS(query []byte, services corelisters.ServiceLister) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	addresses, exists := lookup(question.Name.String(), services)
	message := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID:                 header.ID,
			Response:           true,
			Authoritative:      true,
			RecursionDesired:   header.RecursionDesired,
			RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	if !exists {
		message.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: dnsTTL}
		switch {
		case question.Type == dnsmessage.TypeA && address.Is4():
			body := &dnsmessage.AResource{A: address.As4()}
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: body})
		case question.Type == dnsmessage.TypeAAAA && address.Is6():
			body := &dnsmessage.AAAAResource{AAAA: address.As16()}
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: body})
		}
	}
	answer, err := message.Pack()
	if err != nil {
		return nil
	}
	return answer
}

// lookup finds the addresses of a Service. A name that exists without an address of
// the kind asked for has an empty answer, not an error: else a client that asks for
// both kinds would take the one error for both.
func lookup(name string, services corelisters.ServiceLister) (addresses []netip.Addr, exists bool) {
	inside, ours := strings.CutSuffix(strings.ToLower(name), dnsSuffix)
	service, namespace, two := strings.Cut(inside, ".")
	if !ours || !two {
		return nil, false
	}
	found, err := services.Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	for _, text := range found.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses, true
}
