// The other end of the tunnel for tests/interop.rs: the original library, as a server or as a client.
//
//	interop server          prints its address, and dials through the tunnel of client "c1":
//	                        GET /echo?address=HOST:PORT&bytes=N sends N bytes and compares what comes back,
//	                        GET /download?… asks for N bytes, GET /upload?… sends them and waits for one byte
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
	for path, exchange := range map[string]func(net.Conn, int) error{"/echo": echo, "/download": download, "/upload": upload} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			size, err := strconv.Atoi(r.URL.Query().Get("bytes"))
			if err == nil {
				err = dial(r.Context(), tunnels, r.URL.Query().Get("address"), func(conn net.Conn) error { return exchange(conn, size) })
			}
			if err != nil {
				fmt.Fprintf(w, "error: %v", err)
				return
			}
			fmt.Fprintf(w, "passed %d", size)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr())
	fail(http.Serve(listener, mux))
}

func dial(ctx context.Context, tunnels *remotedialer.Server, address string, exchange func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := tunnels.Dialer("c1")(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return exchange(conn)
}

func echo(conn net.Conn, size int) error {
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

func download(conn net.Conn, size int) error {
	if _, err := conn.Write([]byte("d")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, size))
	return err
}

func upload(conn net.Conn, size int) error {
	// In pieces, as proxies copy: one write is one frame, and a frame of 16 MiB is more than a peer of ours takes.
	pieces := io.MultiReader(bytes.NewReader([]byte("u")), io.LimitReader(zeros{}, int64(size)))
	if _, err := io.Copy(conn, pieces); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }

func connect(url string) {
	err := remotedialer.ClientConnect(context.Background(), url, http.Header{"Authorization": {"Bearer t"}}, nil,
		func(string, string) bool { return true }, nil)
	fail(err)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
