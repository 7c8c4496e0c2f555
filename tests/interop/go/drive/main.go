// Drives a server through the Go SDK client: every value that `mcplane fixture` promises, read through the SDK.
//
//	drive [--era legacy|auto|REVISION] [--only NAME,NAME] [--forget URL] -- COMMAND ARGS… | URL
//
// `auto` discovers and falls back, as the SDK does unless told otherwise; `legacy` and a revision are an `initialize` that names it.
// A URL is a server of Streamable HTTP, or of HTTP+SSE if it ends in `/sse`. A POST to the URL after `--forget` must make the
// server forget its sessions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// One check; the slowest takes well under a second.
const checkMax = 20 * time.Second

// The SDK closes stdin and waits this long for the server to leave before it signals it.
const closeMax = 4 * time.Second

func main() {
	var options options
	flag.StringVar(&options.era, "era", "legacy", "legacy, auto or a revision")
	flag.StringVar(&options.forget, "forget", "", "a POST to this URL makes the server forget its sessions")
	only := flag.String("only", "", "run only these checks")
	flag.Parse()
	options.command = flag.Args()
	if len(options.command) == 0 {
		fmt.Fprintln(os.Stderr, "usage: drive [--era legacy|auto|REVISION] [--only NAME,NAME] -- COMMAND ARGS… | URL")
		os.Exit(2)
	}
	peer := &peer{options: options}
	if err := peer.connect(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot connect:", err)
		os.Exit(2)
	}
	passed := true
	for _, check := range append(checksOf(peer), closes) {
		if name := nameOf(check); *only == "" || strings.Contains(","+*only+",", ","+name+",") {
			passed = attempt(name, check, peer) && passed
		}
	}
	if !passed {
		os.Exit(1)
	}
}

// What one revision and one transport have.
func checksOf(p *peer) []check {
	all := []check{
		identity, tools_list, schema_is_listed_verbatim, echo, add, tool_error, wrong_arguments, unknown_tool, big, content_kinds,
		progress, cancel, concurrent_calls, resources_list, resources_read, unknown_resource, resource_updated, tools_changed,
		prompts, unknown_prompt, completion, sampling, roots, logging,
	}
	if p.revision() >= "2025-06-18" {
		all = append(all, elicitation_accepted, elicitation_declined, elicitation_defaults)
	}
	if p.revision() >= "2025-11-25" {
		all = append(all, elicitation_enums)
	}
	if p.modern() {
		all = append(all, input_required, input_required_many)
	} else {
		all = append(all, ping)
	}
	if p.speaks() == "http" {
		// Before 2025-11-25 nothing tells a client of a stream that said nothing yet how to come back.
		all = append(all, resumed, many_kinds_at_once)
		if p.modern() {
			all = append(all, mirrored_argument)
		} else if p.forget != "" {
			all = append(all, forgotten_session)
		}
	}
	return all
}

type check func(context.Context, *peer)

func attempt(name string, check check, p *peer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), checkMax)
	defer cancel()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		check(ctx, p)
	}()
	var failure any
	select {
	case failure = <-done:
	case <-time.After(checkMax + time.Second):
		failure = fmt.Sprintf("took longer than %v", checkMax)
	}
	if failure == nil {
		fmt.Println("ok", name)
		return true
	}
	var bug runtime.Error
	if err, is := failure.(error); is && errors.As(err, &bug) {
		failure = fmt.Sprintf("%v: %v", reflect.TypeOf(bug), bug)
	}
	fmt.Println("FAIL", name+":", strings.ReplaceAll(fmt.Sprint(failure), "\n", " | "))
	return false
}

// The function's own name is the check's, as in the other drivers.
func nameOf(check check) string {
	name := runtime.FuncForPC(reflect.ValueOf(check).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}

func closes(_ context.Context, p *peer) {
	started := time.Now()
	must(p.session.Close())
	ensure(time.Since(started) < closeMax, "closing took %v", time.Since(started))
}
