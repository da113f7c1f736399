// The other end of the tunnel for tests/interop.rs: the original library, as a server or as a client.
//
//	interop server          prints its address; GET /dial?address=HOST:PORT&bytes=N sends N bytes through the
//	                        tunnel of client "c1" to an echo service and compares what comes back
//	interop client URL      keeps one session with a hub
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/rancher/remotedialer"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "server":
		serve()
	case len(os.Args) == 3 && os.Args[1] == "client":
		connect(os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: interop server | interop client URL")
		os.Exit(2)
	}
}

func serve() {
	tunnels := remotedialer.New(func(*http.Request) (string, bool, error) { return "c1", true, nil }, remotedialer.DefaultErrorWriter)
	mux := http.NewServeMux()
	mux.Handle("/sockets/c1", tunnels)
	mux.HandleFunc("/dial", func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.URL.Query().Get("bytes"))
		if err == nil {
			err = exchange(r.Context(), tunnels, r.URL.Query().Get("address"), size)
		}
		if err != nil {
			fmt.Fprintf(w, "error: %v", err)
			return
		}
		fmt.Fprintf(w, "echoed %d", size)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr())
	fail(http.Serve(listener, mux))
}

func exchange(ctx context.Context, tunnels *remotedialer.Server, address string, size int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := tunnels.Dialer("c1")(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make([]byte, size)
	rand.New(rand.NewSource(1)).Read(sent)
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+rand.Intn(100_000))
			if _, err := conn.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	read := make([]byte, size)
	if _, err := io.ReadFull(conn, read); err != nil {
		return err
	}
	if !bytes.Equal(sent, read) {
		return fmt.Errorf("the bytes came back changed")
	}
	return nil
}

func connect(url string) {
	err := remotedialer.ClientConnect(context.Background(), url, http.Header{"Authorization": {"Bearer t"}}, nil,
		func(string, string) bool { return true }, nil)
	fail(err)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
