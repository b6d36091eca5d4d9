package integration_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// startNginx runs an HTTP server and returns its address.
func startNginx(t *testing.T) string {
	t.Helper()
	nginx := need(t, "nginx", "nginx-light")
	dir := tempDir(t)
	port := strconv.Itoa(freePorts(t, 1))
	config := os.Expand(`
		daemon off;
		master_process off;
		pid $dir/pid;
		error_log stderr;
		events { worker_connections 4096; }
		http {
		  access_log off;
		  keepalive_requests 1000000000;
		  client_body_temp_path $dir;
		  proxy_temp_path       $dir;
		  fastcgi_temp_path     $dir;
		  uwsgi_temp_path       $dir;
		  scgi_temp_path        $dir;
		  server {
		    listen 127.0.0.1:$port backlog=4096;
		    return 200 "hello\n";
		  }
		}`, func(name string) string { return map[string]string{"dir": dir, "port": port}[name] })
	if err := os.WriteFile(dir+"/nginx.conf", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	startProgram(t, exec.Command(nginx, "-p", dir, "-c", dir+"/nginx.conf", "-e", "stderr"))
	waitListening(t, port)
	return "127.0.0.1:" + port
}

func TestHTTPLoad(t *testing.T) {
	wrk := need(t, "wrk", "wrk")
	p := start(t, `
		upstream "web" {
		  server "$nginx" {}
		}
		listener "web" {
		  listen   = ["$listen"]
		  upstream = "web"
		}`, vars{"nginx": startNginx(t)})

	for _, header := range []string{"Connection: keep-alive", "Connection: close"} {
		out := run(t, load+30*time.Second, wrk, "-t", "2", "-c", "64", "-d", seconds(load)+"s", "-H", header, "http://"+p.addr+"/")
		if strings.Contains(out, "Socket errors") || strings.Contains(out, "Non-2xx") || strings.Contains(out, " 0 requests in") {
			t.Errorf("wrk with %s:\n%s", header, out)
		}
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "Requests/sec") {
				t.Logf("%s: %s", header, strings.TrimSpace(line))
			}
		}
	}
	p.wantNoSessions(10 * time.Second)
}
