package api

import (
	"net"
	"testing"
)

func TestQueryOfAWatch(t *testing.T) {
	for _, c := range []struct {
		o        WatchOptions
		selector string
		want     string
	}{
		{WatchOptions{}, "", "allowWatchBookmarks=true&watch=true"},
		{WatchOptions{Since: 1234}, "", "allowWatchBookmarks=true&resourceVersion=1234&watch=true"},
		{
			WatchOptions{Since: 12, Initial: true, Seconds: 301}, "a=b",
			"allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=12&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=301&watch=true",
		},
	} {
		if got := c.o.query(c.selector); got != c.want {
			t.Errorf("%+v: %s, want %s", c.o, got, c.want)
		}
	}
}

func TestAnAddressWhereNobodyListensIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if conn, err := dialPatiently(t.Context(), "tcp", address); err == nil || conn != nil {
		t.Errorf("connection %v, error %v", conn, err)
	}
}
